"""The key rule of an opened table, from its properties, options and stored keys."""

from __future__ import annotations

from pyhudi.errors import OptionError
from pyhudi.formats.java_text import as_text
from pyhudi.formats.nested_fields import root_of, values_at
from pyhudi.keygen.generators import KeyRule, PythonKeys
from pyhudi.keygen.key_generator_config import is_encoding_open, key_rule
from pyhudi.merge.merge_rules import merge_rules
from pyhudi.options import Options
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY


def rule_of(
    state: TableState,
    options: Options,
    *,
    functions: PythonKeys | None,
    with_paths: bool = True,
) -> KeyRule:
    """The key rule for writes to a table.

    with_paths: whether paths are made, too; a delete by keys needs none.  Reads the key of one row
    where properties do not determine how keys are encoded.
    Raises UnsupportedTableError, OptionError.
    """
    bare = options.table.bare_complex_keys
    if is_encoding_open(state.config) and functions is None:
        stored = stored_keys_are_bare(state)
        if stored is not None and bare is not None and stored != bare:
            raise OptionError(
                "option conflicts with the encoding of the stored keys",
                option="hoodie.write.complex.keygen.new.encoding",
                value=bare,
                hint="leave the option out",
            )
        bare = bare if stored is None else stored
    return key_rule(state.config, options, functions=functions, bare=bare, with_paths=with_paths)


def stored_keys_are_bare(state: TableState) -> bool | None:
    """Whether the keys of a complex key generator with one field are bare values; None without
    rows.

    Reads the key columns of file slices, smallest first, until one has rows.
    """
    name = state.config.record_key_fields[0]
    view = state.view()
    spec = SliceSpec(
        state.schema(), (RECORD_KEY, root_of(name)), merge_rules(state.config), view.visibility
    )
    slices = sorted(view.latest_slices(), key=lambda s: s.size_bytes)
    for slice_ in slices:
        rows = read_slice(state.fs, slice_, spec=spec).slice(0, 1)
        if rows.num_rows:
            key = rows.column(RECORD_KEY)[0].as_py()
            return bool(key == as_text(values_at(rows, name), name)[0].as_py())
    return None
