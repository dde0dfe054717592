"""Table properties of change data capture."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.table.properties import TableConfig

CDC_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"


class CdcMode(Enum):
    """Content of a CDC log entry."""

    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    DATA_BEFORE = "DATA_BEFORE"
    OP_KEY_ONLY = "OP_KEY_ONLY"


def cdc_mode(config: TableConfig) -> CdcMode | None:
    """The mode of a table's CDC logs; None if it has none.

    Raises UnsupportedTableError for an unknown mode.
    """
    if not config.cdc_enabled:
        return None
    mode = config.properties.get(CDC_MODE) or CdcMode.DATA_BEFORE_AFTER.value
    try:
        return CdcMode(mode.upper())
    except ValueError:
        raise UnsupportedTableError(
            "unknown mode of CDC logs", property=CDC_MODE, value=mode
        ) from None
