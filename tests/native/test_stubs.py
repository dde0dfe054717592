"""The .pyi files say what the compiled modules have."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import pyhudi._native

STUBS = sorted(Path(pyhudi._native.__file__).parent.glob("*.pyi"))


def parameters(definition: ast.FunctionDef) -> list[str]:
    arguments = definition.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in plain]


def check_function(holder: ModuleType | type, definition: ast.FunctionDef) -> None:
    compiled = getattr(holder, definition.name)
    if definition.name.startswith("__") or definition.decorator_list:
        return  # slots and properties carry no signature
    assert list(inspect.signature(compiled).parameters) == parameters(definition), definition.name


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_every_name_of_a_stub_is_in_its_module(stub: Path) -> None:
    module = importlib.import_module(f"pyhudi._native.{stub.stem}")
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            check_function(module, node)
        elif isinstance(node, ast.ClassDef):
            stored = getattr(module, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    check_function(stored, member)
                elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    assert hasattr(stored, member.target.id), (node.name, member.target.id)
