"""Every error message of the package in one text, to be read in one go.

    python -m tests.messages

One line a message, by module: `CODE: what; hint`.  `{...}` is a value of the call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pyhudi import errors

PACKAGE = Path(__file__).parents[1] / "pyhudi"
_CODES = {
    name: kind.code
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.PyhudiError)
}
_COMPILED = re.compile(r'\b(\w+Error)\(\s*f?"((?:[^"\\]|\\.)*)"')


def main() -> None:
    print(render(), end="")


def render() -> str:
    """All messages; modules in order of their names, messages in order of their lines."""
    parts = []
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]):
        found = list(dict.fromkeys(_messages(path)))
        if found:
            parts.append("\n".join([f"# {path.relative_to(PACKAGE)}", *found]) + "\n")
    return "\n".join(parts)


def _messages(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".pyx":
        for kind, what in _COMPILED.findall(text):
            if kind in _CODES:
                yield f"{_CODES[kind]}: {what}"
        return
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if node.args and _name(node.func) in _CODES:
            what = _text(node.args[0])
            hints = [_text(word.value) for word in node.keywords if word.arg == "hint"]
            if what:
                yield f"{_CODES[_name(node.func)]}: " + "; ".join([what, *filter(None, hints)])


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _text(value: ast.expr) -> str:
    """The text of a literal; both texts of a choice; "" where it is computed elsewhere."""
    if isinstance(value, ast.Constant):
        return str(value.value).replace("\n", " ") if isinstance(value.value, str) else ""
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else "{...}" for v in value.values)
    if isinstance(value, ast.BinOp):
        return f"{_text(value.left)}{_text(value.right) or '{...}'}"
    if isinstance(value, ast.IfExp):
        return " | ".join(filter(None, [_text(value.body), _text(value.orelse)]))
    return ""


if __name__ == "__main__":
    main()
