"""CALL: the procedures of Apache Hudi, as verbs of tables.

PROCEDURES is the table of them: arguments in the order of Apache Hudi 1.2.0, columns of the result,
and a function of the table and the arguments.  `procedure_rows` has those that only read.  Every
procedure takes the table by `table =>` or by `path =>`, and `filter =>` a condition on its rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.near_names import near_names
from pyhudi.operations.table_services import unschedule_plan
from pyhudi.records import without_meta
from pyhudi.sql import procedure_rows as rows
from pyhudi.sql.procedure_rows import Row, Rows, Values
from pyhudi.table.plan_facts import PlanFacts, PlanKind, service_plans
from pyhudi.timeline.instant import REPLACEMENTS, Action


class Kind(Enum):
    """Types of arguments and of columns of results; the value is the name in SQL."""

    STRING = "string"
    INT = "int"
    LONG = "bigint"
    DOUBLE = "double"
    BOOLEAN = "boolean"

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]

    @property
    def python(self) -> type:
        return _PYTHON[self]


_ARROW: Final = {
    Kind.STRING: pa.string(), Kind.INT: pa.int32(), Kind.LONG: pa.int64(),
    Kind.DOUBLE: pa.float64(), Kind.BOOLEAN: pa.bool_(),
}  # fmt: skip
_PYTHON: Final = {
    Kind.STRING: str, Kind.INT: int, Kind.LONG: int, Kind.DOUBLE: float, Kind.BOOLEAN: bool,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.  default: of a call without it.  refused: why it can only have its default."""

    name: str
    kind: Kind = Kind.STRING
    default: Any = None
    is_required: bool = False
    refused: str | None = None


Run: TypeAlias = Callable[[Table, Values], Rows]


@dataclass(frozen=True, slots=True)
class Procedure:
    """run: makes the rows of the result, newest first, as they are read; of a procedure that
    changes the table, after the change.  columns: of the result."""

    run: Run
    arguments: tuple[Argument, ...]
    columns: Mapping[str, Kind]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind.arrow) for name, kind in self.columns.items()])

    @property
    def has_path(self) -> bool:
        """Whether `path` is the table's, as it is where the procedure has no other use for it."""
        return not any(one.name == PATH.name and one.is_required for one in self.arguments)

    def all_arguments(self) -> tuple[Argument, ...]:
        """Those of Apache Hudi, and those that every procedure has, which are given by name."""
        own = {one.name for one in self.arguments}
        return (*self.arguments, *(one for one in (TABLE, PATH, FILTER) if one.name not in own))


TABLE: Final = Argument("table")
PATH: Final = Argument("path")
FILTER: Final = Argument("filter", default="")
_OPTIONS: Final = Argument("options")


def _limit(default: int) -> Argument:
    return Argument("limit", Kind.INT, default)


def _required(name: str, kind: Kind = Kind.STRING) -> Argument:
    return Argument(name, kind, is_required=True)


def _texts(names: str) -> tuple[Argument, ...]:
    return tuple(map(Argument, names.split()))


def _columns(text: str) -> dict[str, Kind]:
    """Columns from names with types: `commit_time total_errors:bigint`."""
    found = {}
    for one in text.split():
        name, _, kind = one.partition(":")
        found[name] = Kind(kind or "string")
    return found


def bind(name: str, positional: list[Any], named: Mapping[str, Any]) -> tuple[Procedure, Values]:
    """The procedure of a name, and the values of all its arguments.

    null is as if the argument were not given.  Raises UserError for unknown names, with near ones,
    for missing and surplus arguments, and for values of another type.
    """
    procedure = PROCEDURES.get(name.lower())
    if procedure is None:
        raise _unknown(name)
    arguments = procedure.all_arguments()
    known = {one.name.lower(): one for one in arguments}
    if len(positional) > len(procedure.arguments):
        raise _wrong(
            name,
            "too many arguments",
            given=len(positional) + len(named),
            takes=len(procedure.arguments),
        )
    values: dict[str, Any] = {
        one.name: value for one, value in zip(procedure.arguments, positional, strict=False)
    }
    for key, value in named.items():
        argument = known.get(key.lower())
        if argument is None:
            near = near_names(key, known)
            takes = f"it takes {', '.join(one.name for one in arguments)}"
            hint = f"did you mean {near[0]}? {takes}" if near else takes
            raise _wrong(name, "the procedure has no such argument", argument=key, hint=hint)
        if argument.name in values:
            raise _wrong(name, "an argument is given twice", argument=argument.name)
        values[argument.name] = value
    given = {key: value for key, value in values.items() if value is not None}
    found = {one.name: _checked(name, one, given.get(one.name)) for one in arguments}
    if (
        name.lower() != HELP
        and procedure.has_path
        and ((TABLE.name in given) == (PATH.name in given))
    ):
        raise _wrong(name, "the procedure needs either table or path", hint="table => 'trips'")
    return procedure, found


def _checked(procedure: str, argument: Argument, value: Any) -> Any:
    """The value of an argument, or its default."""
    if value is None:
        if argument.is_required:
            raise _wrong(
                procedure,
                "an argument is missing",
                argument=argument.name,
                type=argument.kind.value,
            )
        return argument.default
    if not isinstance(value, argument.kind.python) or isinstance(value, bool) != (
        argument.kind is Kind.BOOLEAN
    ):
        hint = f"write it in quotes: '{value}'" if argument.kind is Kind.STRING else None
        raise _wrong(
            procedure,
            "an argument has another type",
            argument=argument.name,
            type=argument.kind.value,
            value=repr(value)[:80],
            hint=hint,
        )
    low = 0 if argument.name == "limit" else -(2**31)
    if argument.kind is Kind.INT and value not in range(low, 2**31):
        raise _wrong(procedure, "an argument is out of range", argument=argument.name, value=value)
    if argument.refused is not None and value != argument.default:
        raise _wrong(
            procedure,
            "an argument of the procedure is not supported",
            argument=argument.name,
            value=value,
            hint=argument.refused,
        )
    return value


def _wrong(procedure: str, what: str, **facts: Any) -> UserError:
    hint = facts.pop("hint", None) or f"CALL help(cmd => '{procedure}') lists the arguments"
    return UserError(what, procedure=procedure, hint=hint, **facts)


def _unknown(name: str) -> UserError:
    reason = NOT_SUPPORTED.get(name.lower())
    if reason is not None:
        return UserError("the procedure is not supported", procedure=name, hint=reason)
    near = near_names(name, (*PROCEDURES, *NOT_SUPPORTED), 2)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return UserError("no such procedure", procedure=name, hint=f"{meant}CALL help lists them")


def as_table(procedure: Procedure, found: Iterable[Row], limit: int | None) -> pa.Table:
    """Rows as a table with the columns of the procedure."""
    schema = procedure.schema
    chosen = list(found if limit is None else itertools.islice(found, limit))
    columns = zip(*chosen, strict=True) if chosen else [()] * len(schema)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


# ---- procedures that change the table -----------------------------------------------------------


def _with_options(table: Table, values: Values, **more: Any) -> Table:
    """The table with the options of a call: `options => 'k=v,k=v'`, and arguments that are
    options, by their names with `__` for a dot."""
    given = {f"hoodie.{key.replace('__', '.')}": v for key, v in more.items() if v is not None}
    for pair in filter(None, (values.get("options") or "").split(",")):
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise UserError("an option is written as name=value", option=pair.strip())
        given[key.strip()] = value.strip()
    return table.with_options(given) if given else table


def _plans(table: Table, kind: PlanKind) -> list[PlanFacts]:
    return service_plans(table._fs, kind)


def _pending(table: Table, kind: PlanKind, chosen: Iterable[str | None]) -> list[str]:
    """The instants of pending plans.  Raises UserError if a call chooses others."""
    found = [plan.instant for plan in _plans(table, kind) if plan.state != "completed"]
    requested = {one for each in chosen if each for one in str(each).split(",")}
    if requested and requested != set(found):
        raise UserError(
            "all pending plans run together",
            pending=", ".join(found) or "none",
            requested=", ".join(sorted(requested)),
            hint="leave out the instants",
        )
    return found


def _operation(values: Values, default: str | None = None) -> tuple[bool, bool]:
    """(whether to plan, whether to run) of op."""
    name = str(values["op"] or default).lower()
    found = {
        "schedule": (True, False), "run": (False, True), "execute": (False, True),
        "scheduleandexecute": (True, True),
    }.get(name)  # fmt: skip
    if found is None:
        raise UserError(
            "unknown operation of a procedure",
            op=values["op"],
            hint="op is 'schedule', 'run', 'execute' or 'scheduleAndExecute'",
        )
    return found


def _run_compaction(table: Table, values: Values) -> Rows:
    table = _with_options(table, values)
    plans, runs = _operation(values)
    chosen = _pending(table, PlanKind.COMPACTION, (values["timestamp"], values["instants"]))
    if plans:
        planned = table.schedule_compaction()
        chosen = [planned] if planned and not runs else [*chosen, *([planned] if planned else [])]
    if runs and chosen:
        table.compact()
    found = {plan.instant: plan for plan in _plans(table, PlanKind.COMPACTION)}
    return [
        (time_, len(found[time_].slices), found[time_].state.upper())
        for time_ in chosen
        if time_ in found
    ]


def _run_clustering(table: Table, values: Values) -> Rows:
    table = _with_options(
        table,
        values,
        clustering__plan__strategy__partition__regex__pattern=values["partition_regex_pattern"],
    )
    plans, runs = _operation(values, "scheduleAndExecute")
    chosen = _pending(table, PlanKind.CLUSTERING, (values["instants"],))
    if plans:
        planned = table.schedule_clustering(
            _listed(values["order"]),
            layout=values["order_strategy"],
            partitions=_listed(values["selected_partitions"]),
        )
        chosen = [planned] if planned and not runs else [*chosen, *([planned] if planned else [])]
    if runs and chosen:
        table.cluster()
    return [row for row in rows.clusterings(table, values) if row[0] in chosen]


def _listed(text: str | None) -> list[str] | None:
    return [one.strip() for one in text.split(",") if one.strip()] if text else None


def _run_clean(table: Table, values: Values) -> Rows:
    table = _with_options(
        table,
        values,
        clean__policy=values["clean_policy"],
        clean__commits__retained=values["retain_commits"],
        clean__hours__retained=values["hours_retained"],
        clean__fileversions__retained=values["file_versions_retained"],
        clean__trigger__strategy=values["trigger_strategy"],
        clean__trigger__max__commits=values["trigger_max_commits"],
    )
    done = table.clean().instants
    return [rows.clean_result(record) for record in rows.clean_records(table, done)]


def _run_ttl(table: Table, values: Values) -> Rows:
    table = _with_options(
        table,
        values,
        partition__ttl__management__strategy__type=values["ttl_policy"],
        partition__ttl__strategy__days__retain=values["retain_days"],
    )
    return [(",".join(table.expire_partitions().partitions),)]


def _rollback_service(table: Table, values: Values) -> Rows:
    begun, instant = time.monotonic(), values["pending_instant"]
    kinds = {
        plan.instant: kind
        for kind in PlanKind
        for plan in _plans(table, kind)
        if plan.state != "completed"
    }
    is_clustering = kinds.get(instant) is PlanKind.CLUSTERING
    unschedule_plan(
        table._fs,
        table._options,
        table._engine,
        instant,
        REPLACEMENTS if is_clustering else frozenset({Action.COMPACTION}),
        dry_run=False,
        keeps_request=not values["delete_request_instant_file"],
    )
    return [(instant, f"{time.monotonic() - begun:.3f} s")]


def _archive_commits(table: Table, values: Values) -> Rows:
    _with_options(
        table,
        values,
        keep__min__commits=values["min_commits"],
        keep__max__commits=values["max_commits"],
        clean__commits__retained=values["retain_commits"],
    ).archive()
    return [(0,)]


def _create_savepoint(table: Table, values: Values) -> Rows:
    table.savepoint(values["comments"], values["commit_time"] or None)
    return [(True,)]


def _savepoint_of(table: Table, values: Values) -> str:
    """The savepoint of a call: the newest if none is named."""
    known = [saved.instant for saved in table.savepoints()]
    instant = values["instant_time"] or max(known, default=None)
    if instant not in known:
        raise UserError(
            "the table has no such savepoint",
            instant=instant,
            hint=f"savepoints: {', '.join(known) or 'none'}",
        )
    return str(instant)


def _delete_savepoint(table: Table, values: Values) -> Rows:
    table.delete_savepoint(_savepoint_of(table, values))
    return [(True,)]


def _rollback_to_savepoint(table: Table, values: Values) -> Rows:
    table.restore(_savepoint_of(table, values))
    return [(True,)]


def _rollback_to_instant(table: Table, values: Values) -> Rows:
    table.rollback(values["instant_time"])
    return [(True,)]


_VERSIONS: Final = (
    "ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE",
)  # fmt: skip


def _version_of(values: Values) -> int:
    text = str(values["to_version"]).upper()
    if text.isdecimal():
        return int(text)
    if text not in _VERSIONS:
        raise UserError("unknown version of tables", to_version=text, hint="SIX, EIGHT or NINE")
    return _VERSIONS.index(text)


def _upgrade(table: Table, values: Values) -> Rows:
    table.upgrade(_version_of(values))
    return [(True,)]


def _downgrade(table: Table, values: Values) -> Rows:
    table.downgrade(_version_of(values))
    return [(True,)]


def _drop_partition(table: Table, values: Values) -> Rows:
    _delete_partitions(table, [values["partition"]])
    return [("SUCCESS",)]


def _truncate(table: Table, values: Values) -> Rows:
    begun = time.monotonic()
    chosen = _listed(values["partitions"])
    if chosen:
        _delete_partitions(table, chosen)
    else:
        empty_table(table)
    return [("SUCCESS", int((time.monotonic() - begun) * 1000))]


def empty_table(table: Table) -> Any:
    """Replace all rows by none; the report of the commit."""
    return table.insert_overwrite_table(without_meta(table.schema).empty_table())


def _delete_partitions(table: Table, paths: list[str]) -> None:
    known = set(table.partitions())
    unknown = [path for path in paths if path not in known and "*" not in path]
    if unknown:
        near = near_names(unknown[0], known)
        raise UserError(
            "the table has no such partition",
            partition=", ".join(unknown),
            hint=f"did you mean {near[0]}?" if near else None,
        )
    table.delete_partitions(paths)


def _hive_sync(table: Table, values: Values) -> Rows:
    named = {
        "username": "username", "password": "password", "mode": "mode", "use_jdbc": "use_jdbc",
        "partition_fields": "partition_fields",
        "partition_extractor_class": "partition_extractor_class",
    }  # fmt: skip
    options = {
        f"hoodie.datasource.hive_sync.{option}": values[argument]
        for argument, option in named.items()
        if values[argument]
    }
    if values["sync_incremental"]:
        options["hoodie.meta.sync.incremental"] = values["sync_incremental"]
    if values["strategy"]:
        options["hoodie.datasource.hive_sync.table.strategy"] = values["strategy"]
    table.sync("hive", uri=values["metastore_uri"] or None, options=options or None)
    return [("SUCCESS",)]


def _help(table: Any, values: Values) -> Rows:
    """Lists the procedures, or the arguments and columns of one."""
    if values["cmd"] is None:
        return [(_signature(name),) for name in sorted(PROCEDURES)]
    name = str(values["cmd"]).lower()
    if name not in PROCEDURES:
        raise _unknown(values["cmd"])
    found = PROCEDURES[name]
    return [
        (_signature(name),),
        *(
            (f"argument {one.name} {one.kind.value} {_shown_default(one)}",)
            for one in found.arguments
        ),
        *((f"column {column} {kind.value}",) for column, kind in found.columns.items()),
    ]


def _shown_default(one: Argument) -> str:
    return "required" if one.is_required else f"default {_literal(one.default)}"


def _signature(name: str) -> str:
    arguments = ", ".join(
        one.name if one.is_required else f"{one.name} => {_literal(one.default)}"
        for one in PROCEDURES[name].arguments
    )
    return f"{name}({arguments})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "null" if value is None else str(value).lower()


# ---- the table of procedures --------------------------------------------------------------------

HELP: Final = "help"
_INSTANT: Final = _required("instant_time")
_WRITE_SUMS: Final = (
    "total_bytes_written:bigint total_files_added:bigint total_files_updated:bigint "
    "total_partitions_written:bigint total_records_written:bigint "
    "total_update_records_written:bigint total_errors:bigint"
)
_STATS: Final = _columns(
    "commit_time state_transition_time action partition file_id previous_commit num_writes:bigint "
    "num_inserts:bigint num_deletes:bigint num_update_writes:bigint total_errors:bigint "
    "total_log_blocks:bigint total_corrupt_log_blocks:bigint total_rollback_blocks:bigint "
    "total_log_records:bigint total_updated_records_compacted:bigint total_bytes_written:bigint"
)
_ARCHIVED: Final = (TABLE, _limit(10), Argument("start_ts", default=""),
                    Argument("end_ts", default=""))  # fmt: skip
_CLEANS: Final = (TABLE, _limit(10), Argument("showArchived", Kind.BOOLEAN, False), FILTER)
_VIEW: Final = (
    TABLE, PATH, Argument("max_instant", default=""),
    Argument("include_max", Kind.BOOLEAN, False),
    Argument("include_in_flight", Kind.BOOLEAN, False, refused="files of pending writes are never "
             "part of a view"),
    Argument("exclude_compaction", Kind.BOOLEAN, False, refused="pending compactions are part of "
             "a view"),
    _limit(10), Argument("path_regex", default="ALL_PARTITIONS"), FILTER,
)  # fmt: skip
_METADATA: Final = (TABLE, PATH)
_FLAG: Final = {"result": Kind.BOOLEAN}
_TEXT: Final = {"result": Kind.STRING}

PROCEDURES: Final[Mapping[str, Procedure]] = {
    HELP: Procedure(_help, _texts("cmd"), _TEXT),
    "run_compaction": Procedure(
        _run_compaction,
        (_required("op"), TABLE, PATH, Argument("timestamp", Kind.LONG), _OPTIONS,
         Argument("instants"),
         Argument("limit", Kind.INT, refused="all pending compactions run together")),
        _columns("timestamp operation_size:int state"),
    ),
    "run_clustering": Procedure(
        _run_clustering,
        (TABLE, PATH,
         Argument("predicate", refused="name the partitions: selected_partitions => 'sf,la'"),
         Argument("order"), Argument("show_involved_partition", Kind.BOOLEAN, False),
         *_texts("op order_strategy options instants selected_partitions partition_regex_pattern"),
         Argument("limit", Kind.INT, refused="all pending clusterings run together")),
        _columns("timestamp input_group_size:int state involved_partitions"),
    ),
    "run_clean": Procedure(
        _run_clean,
        (TABLE,
         Argument("schedule_in_line", Kind.BOOLEAN, True, refused="a clean is always planned"),
         Argument("clean_policy"), Argument("retain_commits", Kind.INT),
         Argument("hours_retained", Kind.INT), Argument("file_versions_retained", Kind.INT),
         Argument("trigger_strategy"), Argument("trigger_max_commits", Kind.INT), _OPTIONS),
        _columns("start_clean_time time_taken_in_millis:bigint total_files_deleted:int "
                 "earliest_commit_to_retain bootstrap_part_metadata version:int"),
    ),
    "run_ttl": Procedure(
        _run_ttl,
        (TABLE, Argument("ttl_policy"), Argument("retain_days", Kind.INT), _OPTIONS),
        _columns("deleted_partitions"),
    ),
    "run_rollback_inflight_tableservice": Procedure(
        _rollback_service,
        (TABLE, PATH, _required("pending_instant"),
         Argument("delete_request_instant_file", Kind.BOOLEAN, False)),
        _columns("instant time_cost"),
    ),
    "archive_commits": Procedure(
        _archive_commits,
        (TABLE, PATH, Argument("min_commits", Kind.INT, 20), Argument("max_commits", Kind.INT, 30),
         Argument("retain_commits", Kind.INT, 10),
         Argument("enable_metadata", Kind.BOOLEAN, True, refused="the table's properties decide")),
        {"result": Kind.INT},
    ),
    "create_savepoint": Procedure(
        _create_savepoint,
        (TABLE, Argument("commit_time", default=""),
         Argument("user", default="", refused="the user of the process is recorded"),
         Argument("comments", default=""), PATH),
        {"create_savepoint_result": Kind.BOOLEAN},
    ),
    "delete_savepoint": Procedure(
        _delete_savepoint, (TABLE, Argument("instant_time", default=""), PATH),
        {"delete_savepoint_result": Kind.BOOLEAN},
    ),
    "rollback_to_savepoint": Procedure(
        _rollback_to_savepoint, (TABLE, Argument("instant_time", default=""), PATH),
        {"rollback_savepoint_result": Kind.BOOLEAN},
    ),
    "rollback_to_instant": Procedure(
        _rollback_to_instant, (TABLE, _INSTANT), {"rollback_result": Kind.BOOLEAN}
    ),
    "upgrade_table": Procedure(_upgrade, (TABLE, _required("to_version")), _FLAG),
    "downgrade_table": Procedure(_downgrade, (TABLE, _required("to_version")), _FLAG),
    "drop_partition": Procedure(_drop_partition, (TABLE, _required("partition")), _TEXT),
    "truncate_table": Procedure(
        _truncate, (TABLE, Argument("partitions")), _columns("result time_cost:bigint")
    ),
    "hive_sync": Procedure(
        _hive_sync,
        (TABLE, *(Argument(name, default="") for name in (
            "metastore_uri", "username", "password", "use_jdbc", "mode", "partition_fields",
            "partition_extractor_class", "strategy", "sync_incremental"))),
        _TEXT,
    ),
    "show_commits": Procedure(
        rows.commits, (TABLE, _limit(10)),
        _columns(f"commit_time state_transition_time action {_WRITE_SUMS}"),
    ),
    "show_commits_metadata": Procedure(rows.commit_stats, (TABLE, _limit(10)), _STATS),
    "show_archived_commits": Procedure(
        rows.archived_commits, _ARCHIVED,
        _columns(f"commit_time state_transition_time {_WRITE_SUMS}"),
    ),
    "show_archived_commits_metadata": Procedure(rows.archived_commit_stats, _ARCHIVED, _STATS),
    "show_commit_files": Procedure(
        rows.commit_files, (TABLE, _limit(10), _INSTANT),
        _columns("action partition_path file_id previous_commit total_records_updated:bigint "
                 "total_records_written:bigint total_bytes_written:bigint total_errors:bigint "
                 "file_size:bigint"),
    ),
    "show_commit_partitions": Procedure(
        rows.commit_partitions, (TABLE, _limit(10), _INSTANT),
        _columns("action partition_path total_files_added:bigint total_files_updated:bigint "
                 "total_records_inserted:bigint total_records_updated:bigint "
                 "total_bytes_written:bigint total_errors:bigint"),
    ),
    "show_commit_write_stats": Procedure(
        rows.commit_write_stats, (TABLE, _limit(10), _INSTANT),
        _columns("action total_bytes_written:bigint total_records_written:bigint "
                 "avg_record_size:bigint"),
    ),
    "show_commit_extra_metadata": Procedure(
        rows.commit_extra,
        (TABLE, _limit(100), Argument("instant_time"), Argument("metadata_key")),
        _columns("instant_time action metadata_key metadata_value"),
    ),
    "show_compaction": Procedure(
        rows.compactions, (TABLE, PATH, _limit(20)),
        _columns("timestamp operation_size:int state"),
    ),
    "show_clustering": Procedure(
        rows.clusterings,
        (TABLE, PATH, _limit(20), Argument("show_involved_partition", Kind.BOOLEAN, False)),
        _columns("timestamp input_group_size:int state involved_partitions"),
    ),
    "show_cleans": Procedure(
        rows.cleans, _CLEANS,
        _columns("clean_time state_transition_time action start_clean_time "
                 "time_taken_in_millis:bigint total_files_deleted:int earliest_commit_to_retain "
                 "last_completed_commit_timestamp version:int"),
    ),
    "show_cleans_metadata": Procedure(
        rows.clean_partitions, _CLEANS,
        _columns("clean_time state_transition_time action start_clean_time partition_path policy "
                 "delete_path_patterns:int success_delete_files:int failed_delete_files:int "
                 "is_partition_deleted:boolean time_taken_in_millis:bigint "
                 "total_files_deleted:int"),
    ),
    "show_clean_plans": Procedure(
        rows.clean_plans,
        (TABLE, _limit(10),
         Argument("showArchived", Kind.BOOLEAN, False, refused="archived cleans have no plans"),
         FILTER),
        _columns("plan_time state action earliest_instant_to_retain "
                 "last_completed_commit_timestamp policy version:int "
                 "total_partitions_to_clean:int total_partitions_to_delete:int extra_metadata"),
    ),
    "show_savepoints": Procedure(rows.savepoints, (TABLE, PATH), _columns("savepoint_time")),
    "show_rollbacks": Procedure(
        rows.rollbacks, (TABLE, _limit(10)),
        _columns("instant rollback_instant total_files_deleted:int time_taken_in_millis:bigint "
                 "total_partitions:int"),
    ),
    "show_rollback_detail": Procedure(
        rows.rollback_files, (TABLE, _limit(10), _INSTANT),
        _columns("instant rollback_instant partition deleted_file succeeded:boolean"),
    ),
    "show_fsview_all": Procedure(
        rows.all_slices, _VIEW,
        _columns("partition file_id base_instant data_file data_file_size:bigint "
                 "num_delta_files:bigint total_delta_file_size:bigint delta_files"),
    ),
    "show_fsview_latest": Procedure(
        rows.latest_slices,
        (*_VIEW, Argument("partition_path", default="ALL_PARTITIONS"),
         Argument("merge", Kind.BOOLEAN, True, refused="slices are merged over pending "
                  "compactions, as readers see them")),
        _columns("partition file_id base_instant data_file data_file_size:bigint "
                 "num_delta_files:bigint total_delta_file_size:bigint "
                 "delta_size_compaction_scheduled:bigint delta_size_compaction_unscheduled:bigint "
                 "delta_to_base_radio_compaction_scheduled:double "
                 "delta_to_base_radio_compaction_unscheduled:double "
                 "delta_files_compaction_scheduled delta_files_compaction_unscheduled"),
    ),
    "show_logfile_metadata": Procedure(
        rows.log_blocks,
        (TABLE, PATH, _required("log_file_path_pattern"), _limit(10), FILTER),
        _columns("instant_time record_count:int block_type header_metadata footer_metadata"),
    ),
    "show_logfile_records": Procedure(
        rows.log_records,
        (TABLE, PATH, _required("log_file_path_pattern"),
         Argument("merge", Kind.BOOLEAN, False, refused="a query merges the logs"), _limit(10),
         FILTER),
        _columns("records"),
    ),
    "show_table_properties": Procedure(
        rows.properties, (TABLE, PATH, _limit(10), FILTER), _columns("key value")
    ),
    "show_timeline": Procedure(
        rows.timeline,
        (TABLE, PATH, _limit(20), Argument("showArchived", Kind.BOOLEAN, False), FILTER,
         Argument("startTime", default=""), Argument("endTime", default="")),
        _columns("instant_time action state requested_time inflight_time completed_time "
                 "timeline_type rollback_info"),
    ),
    "show_inflight_commits": Procedure(
        rows.pending, (TABLE, Argument("min_age_minutes", Kind.INT, 0)),
        _columns("instant_time action state"),
    ),
    "show_metadata_table_stats": Procedure(
        rows.metadata_stats, (*_METADATA, FILTER), _columns("stat_key stat_value")
    ),
    "show_metadata_table_files": Procedure(
        rows.metadata_files,
        (*_METADATA, Argument("partition", default=""), _limit(100), FILTER),
        _columns("file_path"),
    ),
    "show_metadata_table_partitions": Procedure(
        rows.metadata_partitions, (*_METADATA, FILTER), _columns("partition")
    ),
    "show_metadata_table_column_stats": Procedure(
        rows.column_stats, (*_METADATA, *_texts("partition targetColumns"), FILTER),
        _columns("file_name column_name min_value max_value null_number:bigint"),
    ),
    "validate_metadata_table_files": Procedure(
        rows.listing_differences, (TABLE, Argument("verbose", Kind.BOOLEAN, False)),
        _columns("partition file_name is_present_in_fs:boolean is_present_in_metadata:boolean "
                 "fs_size:bigint metadata_size:bigint"),
    ),
    "stats_wa": Procedure(
        rows.write_amplification, (TABLE, _limit(10)),
        _columns("commit_time total_upserted:bigint total_written:bigint "
                 "write_amplification_factor"),
    ),
    "stats_file_sizes": Procedure(
        rows.file_sizes, (TABLE, Argument("partition_path", default=""), _limit(10)),
        _columns("commit_time min:bigint 10th:double 50th:double avg:double 95th:double "
                 "max:bigint num_files:int std_dev:double"),
    ),
    "commits_compare": Procedure(
        rows.commits_compared, (_required("table"), _required("path")), _columns("compare_detail")
    ),
}  # fmt: skip
"""By name."""

_REPAIR: Final = "`pyhudi doctor` finds damage and `pyhudi repair` repairs it"
_AUDIT: Final = "`pyhudi locks` shows who holds the table's lock"
_COPY: Final = "INSERT INTO ... SELECT copies rows, `pyhudi table copy` a table"
_OWN_METADATA: Final = "table.metadata.rebuild() builds the metadata table again"

NOT_SUPPORTED: Final[Mapping[str, str]] = {
    "copy_to_table": _COPY,
    "copy_to_temp_view": "a query reads the table as of an instant: timestamp as of",
    "create_metadata_table": _OWN_METADATA,
    "init_metadata_table": _OWN_METADATA,
    "delete_metadata_table": _OWN_METADATA,
    "delete_marker": "rollback of a failed write deletes its markers",
    "export_instants": "`pyhudi table copy` copies a table with its timeline",
    "hdfs_parquet_import": "`pyhudi write` reads Parquet files into a table",
    "run_bootstrap": "bootstrapped tables are read; `pyhudi write` copies files into a table",
    "show_bootstrap_mapping": "bootstrapped tables are read only",
    "show_bootstrap_partitions": "bootstrapped tables are read only",
    "partition_bucket_index_manager": "all partitions of a table have one number of buckets",
    "repair_add_partition_meta": _REPAIR,
    "repair_corrupted_clean_files": _REPAIR,
    "repair_deduplicate": "`pyhudi stats keys` finds keys that are stored more than once; "
    "DELETE and INSERT of these keys leaves one row of each",
    "repair_migrate_partition_meta": "partition metafiles are written in the format of the table",
    "repair_overwrite_hoodie_props": "`pyhudi table set` sets properties that may change",
    "show_file_status": "show_commit_files lists the files of a commit",
    "show_fs_path_detail": "`pyhudi table sizes` shows files and bytes of each partition",
    "show_invalid_parquet": "`pyhudi doctor` reads every file",
    "show_metadata_column_stats_overlap": "show_metadata_table_column_stats lists the ranges",
    "sync_validate": "`pyhudi sync --dry-run` shows what a catalog lacks",
    "set_audit_lock": _AUDIT,
    "show_audit_lock_status": _AUDIT,
    "validate_audit_lock": _AUDIT,
    "cleanup_audit_lock": _AUDIT,
}
"""Procedures of Apache Hudi that are refused, with what serves instead."""
