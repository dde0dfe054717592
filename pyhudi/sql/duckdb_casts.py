"""Casts of text to dates, times, booleans and floating numbers in DuckDB, as Spark casts them.

DuckDB parses other forms: it has no date of `2024-02`, and takes `1_000` as a number.  Each macro
gives null for text that Spark 4 does not cast; values of other types are cast by DuckDB.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

_SPACE: Final = "[[:space:][:cntrl:]]*"
_DAY: Final = r"\+?(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
_ZONE: Final = r"(?:([+-])(\d{1,2})(?::?(\d{2}))?|([A-Za-z][A-Za-z0-9_+/-]*))?"
_CLOCK: Final = rf"([01]?\d|2[0-3])(?::(\d{{1,2}})(?::(\d{{1,2}}(?:\.\d*)?) *{_ZONE})?)?"
_DATE: Final = rf"(?s)^{_SPACE}{_DAY}(?:[ T].*)?)?)?{_SPACE}$"
_TIME: Final = rf"^{_SPACE}{_DAY}(?:[ T]{_CLOCK})?)?)?{_SPACE}$"
_DIGITS: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_FRACTION: Final = rf"(?i)^{_SPACE}(?:({_DIGITS})[df]?|([+-]?inf(?:inity)?|nan)){_SPACE}$"


def _parts(pattern: str, names: str) -> str:
    listed = ", ".join(f"'{name}'" for name in names.split())
    return f"regexp_extract(cast(x as varchar), '{pattern}', [{listed}])"


def _text(name: str, parts: str, value: str) -> str:
    """A macro: the value, made of the parts of a text or null if it has none."""
    return f"""
    {_PREFIX}{name}(x) as case
      when typeof(x) <> 'VARCHAR' then try_cast(x as {name})
      else list_transform([{parts}], lambda p: {value})[1] end
    """


_PREFIX: Final = "__pyhudi_parsed_"
_DAY_TEXT: Final = "p.y || '-' || if(p.m = '', '1', p.m) || '-' || if(p.d = '', '1', p.d)"
_TIME_TEXT: Final = (
    f"{_DAY_TEXT} || ' ' || if(p.h = '', '0', p.h) || ':' || if(p.n = '', '0', p.n) || ':'"
    " || if(p.s = '', '0', p.s)"
    " || case when p.sign <> '' then p.sign || lpad(p.zh, 2, '0') || ':'"
    " || if(p.zm = '', '00', p.zm) when p.zone = 'Z' then '+00'"
    " when p.zone <> '' then ' ' || p.zone else '' end"
)
_TIME_PARTS: Final = _parts(_TIME, "y m d h n s sign zh zm zone")
_TRUTHS: Final = "'t', 'true', 'y', 'yes', '1'"
_UNTRUTHS: Final = "'f', 'false', 'n', 'no', '0'"
CAST_MACROS: Final = (
    _text("date", _parts(_DATE, "y m d"), f"try_cast({_DAY_TEXT} as date)"),
    _text("timestamp", _TIME_PARTS, f"try_cast({_TIME_TEXT} as timestamp)"),
    _text("timestamptz", _TIME_PARTS, f"try_cast({_TIME_TEXT} as timestamptz)"),
    _text("double", _parts(_FRACTION, "n s"), "try_cast(p.n || p.s as double)"),
    _text("float", _parts(_FRACTION, "n s"), "try_cast(p.n || p.s as float)"),
    f"""
    {_PREFIX}boolean(x) as case
      when typeof(x) <> 'VARCHAR' then try_cast(x as boolean)
      when lower(regexp_replace(cast(x as varchar), '^{_SPACE}|{_SPACE}$', '', 'g')) in ({_TRUTHS})
        then true
      when lower(regexp_replace(cast(x as varchar), '^{_SPACE}|{_SPACE}$', '', 'g'))
        in ({_UNTRUTHS}) then false end
    """,
    *(
        f"""
    {_PREFIX}{name}_strict(x) as case
      when x is not null and {_PREFIX}{name}(x) is null
        then error('a value cannot be cast to {name}: ' || cast(x as varchar))
      else {_PREFIX}{name}(x) end
    """
        for name in ("date", "timestamp", "timestamptz", "double", "float", "boolean")
    ),
)
"""Functions that a connection needs."""
_KINDS: Final = exp.DataType.Type
_NAMES: Final = {
    _KINDS.DATE: "date", _KINDS.TIMESTAMP: "timestamptz", _KINDS.TIMESTAMPTZ: "timestamptz",
    _KINDS.TIMESTAMPLTZ: "timestamptz", _KINDS.TIMESTAMPNTZ: "timestamp",
    _KINDS.DOUBLE: "double", _KINDS.FLOAT: "float", _KINDS.BOOLEAN: "boolean",
}  # fmt: skip


def parsed(value: exp.Expr, to: exp.Expr, *, strict: bool) -> exp.Expr | None:
    """A cast as a call of a macro; None for a type whose casts DuckDB does as Spark does.

    strict: whether text that is not cast is an error, and not null.
    """
    name = _NAMES.get(to.this)
    if name is None:
        return None
    macro = f"{_PREFIX}{name}{'_strict' if strict else ''}"
    return exp.Anonymous(this=macro, expressions=[value.copy()])
