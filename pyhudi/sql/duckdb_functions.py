"""Spark's functions in DuckDB: a closed list, each with Spark's result.

A function that is not listed is rejected with an error that names it, as DuckDB may have another
one of that name.
What DuckDB computes in another way is replaced: casts to integers cut the fraction instead of
rounding, `like` has an escape character, days of the week are numbered from Sunday as 1, a date
that is moved by days stays a date, the logarithm of zero is null.  Casts fail for text that does
not fit, as in Spark 4; `try_cast` gives null.  tests/spark compares every function of the list
with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from sqlglot import exp

from pyhudi.errors import UserError
from pyhudi.near_names import near_names
from pyhudi.read.sql.sql_syntax import PARSER_FAULTS
from pyhudi.sql.duckdb_casts import CAST_MACROS, parsed
from pyhudi.sql.statements import Tree

SAME: Final = frozenset({
    "Abs", "Sqrt", "Exp", "Pow", "Greatest", "Least", "Coalesce", "Nvl2", "Nullif", "If", "Case",
    "Upper", "Lower", "Length", "Trim", "Pad", "Repeat", "Reverse", "Replace", "Translate",
    "Ascii", "StartsWith", "EndsWith", "Contains", "RegexpLike", "MD5", "SHA", "SHA2", "Hex",
    "Levenshtein", "Space", "Year", "Month", "Day", "DayOfMonth", "DayOfYear", "WeekOfYear",
    "Quarter", "Hour", "Minute", "Second", "DateDiff", "LastDay", "TimestampTrunc", "CurrentDate",
    "CurrentTimestamp", "UnixDate", "Count", "CountIf", "Avg", "Min", "Max", "First", "Last",
    "AnyValue", "ArrayAgg", "ArrayUniqueAgg", "Stddev", "StddevSamp", "StddevPop", "Variance",
    "VariancePop", "Corr", "CovarPop", "CovarSamp", "Median", "LogicalAnd", "LogicalOr", "ArgMax",
    "ArgMin", "ApproxDistinct", "Sum", "RowNumber", "Rank", "DenseRank", "Lag", "Lead", "Ntile",
    "FirstValue", "LastValue", "PercentRank", "CumeDist", "NthValue", "Array", "ArrayMax",
    "ArrayMin", "Explode", "Transform", "ArrayFilter", "Struct", "VarMap", "MapKeys", "Bracket",
    "ArraySize", "ArraySort", "TimeStrToTime", "And", "Or", "Not", "Round", "Between",
})  # fmt: skip
"""Nodes of sqlglot whose text for DuckDB gives Spark's result."""
_INTEGERS: Final = (
    exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT,
    exp.DataType.Type.BIGINT,
)  # fmt: skip
WHOLE: Final = "__pyhudi_whole"
TEXT: Final = "__pyhudi_text"
DIGITS: Final = "__pyhudi_digits"
_UNWRITTEN: Final = """typeof(x) in ('DOUBLE', 'FLOAT') and x is not null
          and not (try_cast(x as double) = 0
            or abs(try_cast(x as double)) between 0.001 and 9999999)"""
"""Whether Spark writes a number in another form than DuckDB."""
_MACROS: Final = (
    *CAST_MACROS,
    f"""
    {WHOLE}(x) as case
      when typeof(x) in ('DOUBLE', 'FLOAT')
        then try_cast(trunc(try_cast(x as double)) as hugeint)
      when starts_with(typeof(x), 'DECIMAL')
        then try_cast(split_part(cast(x as varchar), '.', 1) as hugeint)
      when typeof(x) = 'VARCHAR'
        then try_cast(regexp_extract(cast(x as varchar), '^\\s*([+-]?[0-9]+)\\s*$', 1) as hugeint)
      else try_cast(x as hugeint) end
    """,
    f"""
    {WHOLE}_strict(x) as case
      when x is not null and {WHOLE}(x) is null
        then error('a value cannot be cast to an integer: ' || cast(x as varchar))
      else {WHOLE}(x) end
    """,
    f"""
    {TEXT}(x) as case
      when typeof(x) = 'TIMESTAMP WITH TIME ZONE'
        then regexp_replace(cast(x as varchar), '\\+00$', '')
      when isnan(try_cast(x as double)) and typeof(x) in ('DOUBLE', 'FLOAT') then 'NaN'
      when isinf(try_cast(x as double)) and typeof(x) in ('DOUBLE', 'FLOAT')
        then if(try_cast(x as double) > 0, 'Infinity', '-Infinity')
      when {_UNWRITTEN}
        then error('Spark writes this number in another form; cast it to decimal first: '
          || cast(x as varchar))
      when starts_with(typeof(x), 'STRUCT') or starts_with(typeof(x), 'MAP')
          or ends_with(typeof(x), ']') or typeof(x) = 'BLOB'
        then error('the type is not cast to text on one machine: ' || typeof(x))
      else cast(x as varchar) end
    """,
    f"""
    __pyhudi_part(x) as case
      when {_UNWRITTEN}
          or typeof(x) in ('TIMESTAMP WITH TIME ZONE', 'BLOB') and x is not null
        then error('cast this value to a string before it is joined to texts: '
          || cast(x as varchar))
      else x end
    """,
    f"{DIGITS}(x varchar) as replace(x, '_', '?'), (x) as x",
    """
    __pyhudi_words(x varchar[], separator) as
      case when list_aggregate(x, 'count') > 0 then list_reduce(
        list_filter(x, lambda e: e is not null), lambda a, b: a || separator || b) end,
      (x, separator) as x
    """,
    """
    __pyhudi_remainder(x, y) as case
      when y = 0 and x is not null then error('Division by zero in a remainder')
      else x % y end
    """,
    "__pyhudi_floor(x bigint) as x, (x hugeint) as x, (x) as floor(x)",
    "__pyhudi_ceil(x bigint) as x, (x hugeint) as x, (x) as ceil(x)",
    "__pyhudi_sign(x) as if(isnan(cast(x as double)), cast(x as double), sign(x))",
    "__pyhudi_ln(x) as case when x > 0 then ln(x) end",
    "__pyhudi_log(b, x) as case when b > 0 and x > 0 then log(b, x) end",
    "__pyhudi_left(s, n) as if(n < 0 and s is not null, '', left(s, n))",
    "__pyhudi_right(s, n) as if(n < 0 and s is not null, '', right(s, n))",
    """
    __pyhudi_locate(part, s, start) as case
      when start < 1 then strpos(s, part) * 0
      when strpos(substring(s, start), part) = 0 then 0
      else strpos(substring(s, start), part) + start - 1 end
    """,
    """
    __pyhudi_split(s, p) as
      if(s = '' and p is not null, [''], str_split_regex(s, p))
    """,
    "__pyhudi_chr(n) as if(n < 0, '', chr(cast(n % 256 as integer)))",
    """
    __pyhudi_contains(list, x) as case
      when list is null or x is null then null
      when list_contains(list, x) then true
      when list_aggregate(list, 'count') < len(list) then null
      else false end
    """,
    """
    __pyhudi_initcap(s) as array_to_string(list_transform(
      string_split(s, ' '), lambda w: upper(left(w, 1)) || lower(substring(w, 2))), ' ')
    """,
    """
    __pyhudi_item(x, i bigint) as case when i >= 0 then x[i + 1] end,
      (x, i varchar) as x[i]
    """,
    "__pyhudi_moved(x date, i) as cast(x + i as date), (x, i) as x + i",
)
"""Functions that DuckDB lacks; each calls only earlier ones."""
_NAME: Final = re.compile(r"__pyhudi_\w+")
_BY_NAME: Final = {_NAME.findall(macro)[0]: macro for macro in _MACROS}


def macros_of(text: str) -> list[str]:
    """The statements that create what a query calls: few of all, which cost more than the query."""
    names = set(_NAME.findall(text.lower()))
    for name in reversed(_BY_NAME):
        if name in names:
            names.update(_NAME.findall(_BY_NAME[name]))
    used = (macro for name, macro in _BY_NAME.items() if name in names)
    return [f"create macro if not exists {macro.strip()}" for macro in used]


def for_duckdb(tree: Tree) -> Tree:
    """A query of Spark's dialect with functions that give Spark's results in DuckDB; the given
    tree stays as it is.  Raises UserError for a function that is not listed."""
    holder = exp.Paren(this=tree.copy())
    for node in reversed(list(holder.walk())):  # what is inside comes first
        change = CHANGED.get(type(node).__name__)
        if isinstance(node, exp.Lateral) and node.args.get("outer"):
            raise UserError(
                "lateral view outer is not supported on one machine",
                hint="join the rows with those of a lateral view",
            )
        if isinstance(node, exp.Anonymous):
            change = BY_NAME.get(node.name.lower())
            if change is None:
                _refuse(node, node.name)
        elif change is None and isinstance(node, exp.Func) and not _is_same(node):
            _refuse(node, node.sql_name())
        if change is not None and (changed := _changed(node, change)) is not node:
            node.replace(changed)
    return holder.this


def _changed(node: Tree, change: Callable[[Any], Tree]) -> Tree:
    try:
        return change(node)
    except PARSER_FAULTS as error:  # sqlglot counts the arguments of few functions
        raise UserError(
            "the function does not take these arguments",
            function=node.name if isinstance(node, exp.Anonymous) else node.key,
            reason=str(error),
        ) from None


def _is_same(node: Tree) -> bool:
    of_rows = isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)
    return of_rows or type(node).__name__ in SAME


def _refuse(node: Tree, name: str) -> NoReturn:
    near = near_names(name.lower(), (*BY_NAME, *(n.lower() for n in SAME)))
    raise UserError(
        "the function is not supported on one machine",
        function=name.lower(),
        hint=f"did you mean {near[0]}?" if near else "Spark has it; docs/sql.md has more",
    )


def _call(name: str, *arguments: Tree) -> Tree:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _cast(node: Tree) -> Tree:
    to = node.args["to"]
    if node.this.is_string and _ISO.fullmatch(node.this.name):
        return node.copy()  # a constant, which filters of files need as it is
    found = parsed(node.this, to, strict=not isinstance(node, exp.TryCast))
    if found is not None:
        return found
    strict = "" if isinstance(node, exp.TryCast) else "_strict"
    if to.this in _INTEGERS:
        whole = _call(f"{WHOLE}{strict}", node.this.copy())
        return type(node)(this=whole, to=to.copy())
    if to.this in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR) and not node.this.is_string:
        return _call(TEXT, node.this.copy())
    if to.this is exp.DataType.Type.DECIMAL:
        return type(node)(this=_call(DIGITS, node.this.copy()), to=to.copy())
    return node.copy()


def _like(node: Tree) -> Tree:
    if isinstance(node.parent, exp.Escape):
        return node.copy()
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _macro(name: str) -> Callable[[Tree], Tree]:
    """A change of a function of one argument, or of two, to a macro of this name."""

    def change(node: Tree) -> Tree:
        more = node.args.get("expression")
        return _call(f"__pyhudi_{name}", node.this.copy(), *([more.copy()] if more else []))

    return change


def _rounded(name: str) -> Callable[[Tree], Tree]:
    """Floor or ceil: integers stay as they are, where DuckDB makes doubles of them."""
    change = _macro(name)
    return lambda node: node if node.args.get("decimals") else change(node)


def _joined(node: Tree) -> Tree:
    """Texts that are joined: other values become the texts that Spark writes, or are refused."""
    for part in node.expressions or [node.this, node.expression]:
        if not isinstance(part, exp.Literal | exp.DPipe):
            part.replace(_call("__pyhudi_part", part.copy()))
    if isinstance(node, exp.ConcatWs):  # releases of DuckDB write a list in other ways
        separator, *parts = node.expressions
        for part in parts:
            part.replace(_call("__pyhudi_words", part.copy(), separator.copy()))
    return node


def _located(node: Tree) -> Tree:
    start = node.args.get("position")
    if start is None:
        return node
    return _call("__pyhudi_locate", node.args["substr"].copy(), node.this.copy(), start.copy())


def _character(node: Tree) -> Tree:
    return _call("__pyhudi_chr", *(each.copy() for each in node.expressions))


def _item(node: Tree) -> Tree:
    """An item by its position from 0; the name of a field, the key of a map, and `element_at`,
    which counts from 1, stay as they are."""
    (place,) = node.expressions
    if node.args.get("offset") or place.is_string:
        return node
    return exp.Paren(this=_call("__pyhudi_item", node.this.copy(), place.copy()))


def _capitalized(node: Tree) -> Tree:
    """Words begin after blanks, which sqlglot may state; Spark takes no other separators."""
    given = node.args.get("expression")
    more = [] if given is None or given.name == " " else [given.copy()]
    return _call("__pyhudi_initcap", node.this.copy(), *more)


def _counted(node: Tree) -> Tree:
    """The number of distinct rows of several values, none of which is null."""
    distinct = node.this
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return node
    values = distinct.expressions
    is_null = exp.or_(*(exp.Is(this=value.copy(), expression=exp.null()) for value in values))
    row = _call("row", *(value.copy() for value in values))
    one = exp.Case(ifs=[exp.If(this=is_null, true=exp.null())], default=row)
    return exp.Count(this=exp.Distinct(expressions=[one]))


def _series(node: Tree) -> Tree:
    """Without a step, a series goes down to an end that is less than its start."""
    changed = node.copy()
    if node.args.get("step") is None:
        start, end = node.args["start"].copy(), node.args["end"].copy()
        one = exp.Literal.number(1)
        up = exp.If(this=exp.LTE(this=start, expression=end), true=one)
        changed.set("step", exp.Case(ifs=[up], default=exp.Neg(this=one.copy())))
    return changed


def _replaced(node: Tree) -> Tree:
    """Groups of a match in its replacement: `$1` for Spark, `\\1` for DuckDB."""
    given = node.args.get("replacement")
    if not isinstance(given, exp.Literal) or not _REPLACEMENT.fullmatch(given.name):
        raise UserError(
            "regexp_replace needs a constant replacement on one machine",
            given=str(given),
            hint="a text in which $0 to $9 are groups, and \\ precedes $ and \\ as characters",
        )
    changed = node.copy()
    changed.set("replacement", exp.Literal.string(_REPLACED.sub(_group, given.name)))
    return changed


def _group(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "$":
        return f"\\{text[1]}"
    return "\\\\" if text[1] == "\\" else text[1]


def _matched(node: Tree) -> Tree:
    """A group of a match: the first where none is given; DuckDB has no error for a missing one."""
    pattern, group = node.expression, node.args.get("group")
    if isinstance(pattern, exp.Literal) and isinstance(group, exp.Literal):
        groups = _groups_of(pattern.name)
        if groups is not None and int(group.name) > groups:
            raise UserError(
                "the pattern of regexp_extract has no such group",
                pattern=pattern.name,
                group=group.name,
                groups=groups,
                hint="the group is 1 where none is given; 0 is the whole match",
            )
    return node


def _split(node: Tree) -> Tree:
    if node.args.get("limit") is not None:
        raise UserError("split has no limit on one machine", given=str(node))
    return _macro("split")(node)


def _groups_of(pattern: str) -> int | None:
    """The groups of a pattern; None for one that only DuckDB can parse."""
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _extracted(node: Tree) -> Tree:
    """Parts of a time: days of the week are counted from 1, seconds have a fraction."""
    name, of = node.this.name.upper(), node.expression
    if name in ("DOW", "DAYOFWEEK"):
        return _plus_one(node)
    if name in ("SECOND", "SECONDS"):
        parts = exp.Extract(this=exp.var("MICROSECONDS"), expression=of.copy())
        ratio = exp.Div(this=parts, expression=exp.Literal.number("1000000.0"))
        return exp.Cast(this=ratio, to=exp.DataType.build("decimal(8, 6)"))
    return node


def _moved(node: Tree) -> Tree:
    """A date that is moved by days, months or years stays a date."""
    moves = [each for each in (node.this, node.expression) if isinstance(each, exp.Interval)]
    if len(moves) != 1 or moves[0].text("unit").upper().rstrip("S") not in _OF_DATES:
        return node
    move = exp.Neg(this=moves[0].copy()) if isinstance(node, exp.Sub) else moves[0].copy()
    of = node.expression if moves[0] is node.this else node.this
    return _call("__pyhudi_moved", of.copy(), move)


def _substring(node: Tree) -> Tree:
    """Position 0 is 1; from the end, a position before the start counts the missing characters."""
    text, start, length = node.this, node.args["start"], node.args.get("length")
    given = start.this if isinstance(start, exp.Neg) else start
    if not isinstance(given, exp.Literal):
        raise UserError("substring needs a constant position on one machine", given=str(start))
    if start.name == "0":
        start = exp.Literal.number(1)
    if isinstance(length, exp.Neg):
        length = exp.Literal.number(0)
    return exp.Substring(this=text.copy(), start=start.copy(), length=length and length.copy())


def _formatted(node: Tree) -> Tree:
    """Formats of dates: those of years, months, days, hours, minutes and seconds in full."""
    given = node.args.get("format")
    rest = given.name if isinstance(given, exp.Literal) else "a"
    for code in _CODES:
        rest = rest.replace(code, "")
    if given is not None and any(letter.isalpha() or letter == "%" for letter in rest):
        raise UserError(
            "the format of dates is not supported on one machine",
            function=node.sql_name().lower(),
            hint="a constant of yyyy, MM, dd, HH, mm and ss",
        )
    return node.copy()


def _to_date(node: Tree) -> Tree:
    if node.args.get("format") is None:
        return _as_date(node.this)
    given = _formatted(node).args["format"].name.replace("strict", "")
    return _as_date(_call("strptime", node.this.copy(), exp.Literal.string(given)))


def _date_trunc(node: Tree) -> Tree:
    unit = _UNITS.get(node.args["unit"].name.lower())
    if unit is None:
        raise UserError(
            "the unit of trunc is not supported on one machine",
            unit=node.args["unit"].name,
            hint=", ".join(_UNITS),
        )
    cut = node.copy()
    cut.set("unit", exp.Literal.string(unit))
    return _as_date(cut)


def _plus_one(node: Tree) -> Tree:
    return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))


def _as_date(node: Tree) -> Tree:
    return _cast(exp.Cast(this=node.copy(), to=exp.DataType.build("date")))


def _weekday(node: Tree) -> Tree:
    day = _call("isodow", _only(node))
    return exp.Paren(this=exp.Sub(this=day, expression=exp.Literal.number(1)))


def _only(node: Tree) -> Tree:
    """A copy of the one argument of a function."""
    (value,) = node.expressions
    return value.copy()


def _grouped(node: Tree) -> Tree:
    """In parentheses as an operand, as DuckDB does not chain comparisons and ranks `~` lowest."""
    is_operand = isinstance(node.parent, exp.Binary) and not isinstance(node.parent, exp.Connector)
    return exp.Paren(this=node.copy()) if is_operand else node


def _is_null(node: Tree) -> Tree:
    return exp.Paren(this=exp.Is(this=_only(node), expression=exp.null()))


def _is_not_null(node: Tree) -> Tree:
    return exp.Not(this=_is_null(node))


def _pmod(node: Tree) -> Tree:
    """The remainder, if it is negative that of its sum with the divisor."""
    number, by = node.expressions

    def rest(of: Tree) -> Tree:
        return _call("__pyhudi_remainder", of.copy(), by.copy())

    is_negative = exp.LT(this=rest(number), expression=exp.Literal.number(0))
    raised = rest(exp.Add(this=rest(number), expression=exp.Paren(this=by.copy())))
    return exp.Case(ifs=[exp.If(this=is_negative, true=raised)], default=rest(number))


def _is_nan(node: Tree) -> Tree:
    return exp.Coalesce(this=node.copy(), expressions=[exp.false()])


def _months_between(node: Tree) -> Tree:
    return exp.Round(this=node.copy(), decimals=exp.Literal.number(8))


def _to_bigint(node: Tree) -> Tree:
    return _cast(exp.Cast(this=_only(node), to=exp.DataType.build("bigint")))


_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d( ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?)?|epoch")
_CODES: Final = ("%Y", "%mstrict", "%dstrict", "%Hstrict", "%Mstrict", "%Sstrict")
_UNITS: Final = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mon": "month", "mm": "month", "week": "week",
}  # fmt: skip
_OF_DATES: Final = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
_REPLACED: Final = re.compile(r"\\.|\$\d", re.DOTALL)
_REPLACEMENT: Final = re.compile(r"(?:[^$\\]|\\.|\$\d(?!\d))*", re.DOTALL)
CHANGED: Final[Mapping[str, Callable[[Any], Tree]]] = {
    "Cast": _cast, "TryCast": _cast, "Like": _like, "ILike": _like, "Substring": _substring,
    "DayOfWeek": _plus_one, "TsOrDsAdd": _as_date, "TsOrDsToDate": _to_date,
    "TimeToStr": _formatted, "DateTrunc": _date_trunc, "IsNan": _is_nan,
    "MonthsBetween": _months_between, "Floor": _rounded("floor"), "Ceil": _rounded("ceil"),
    "Sign": _macro("sign"), "Ln": _macro("ln"), "Log": _macro("log"), "Mod": _macro("remainder"),
    "Left": _macro("left"), "Right": _macro("right"), "StrPosition": _located, "Chr": _character,
    "Concat": _joined, "ConcatWs": _joined, "DPipe": _joined, "RegexpReplace": _replaced,
    "RegexpExtract": _matched, "RegexpSplit": _split,
    "Extract": _extracted, "AddMonths": _as_date, "Add": _moved, "Sub": _moved,
    "ArrayContains": _macro("contains"), "GenerateSeries": _series, "Bracket": _item,
    "Initcap": _capitalized, "Count": _counted,
    **dict.fromkeys(("BitwiseNot", "EQ", "NEQ", "GT", "GTE", "LT", "LTE"), _grouped),
}  # fmt: skip
BY_NAME: Final[Mapping[str, Callable[[Any], Tree]]] = {
    "weekday": _weekday, "isnull": _is_null, "isnotnull": _is_not_null, "pmod": _pmod,
    "bigint": _to_bigint, "mean": lambda node: exp.Avg(this=_only(node)),
    "every": lambda node: exp.LogicalAnd(this=_only(node)),
}  # fmt: skip
