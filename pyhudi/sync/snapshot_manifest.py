"""Manifests: the base files of the newest snapshot as a text, for engines that read lists of files.

```
.hoodie/absolute-path-manifest/latest-snapshot.csv    a URL a line, as BigQuery reads them
.hoodie/manifest/latest-snapshot.csv                  a file name a line
```

Engines that read them see base files only: of a merge-on-read table, the rows of the read-optimized
query.
Source: ManifestFileWriter of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import join
from pyhudi.markup import card_html, facts_html, facts_text
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.sync.table_entries import as_url

_FOLDERS: Final = {True: ".hoodie/absolute-path-manifest", False: ".hoodie/manifest"}
_NAME: Final = "latest-snapshot.csv"


@dataclass(frozen=True, slots=True)
class ManifestReport:
    """What a manifest lists.

    path: of the manifest in the table.  instant: the newest commit that it contains; None for a
    table without commits.  log_files: in the snapshot, whose rows and deletes the manifest lacks.
    dry_run: nothing was written.
    """

    path: str
    instant: InstantTime | None
    base_files: int
    log_files: int
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can represent."""
        return asdict(self)

    def __repr__(self) -> str:
        return facts_text("ManifestReport", self.to_dict())

    def _repr_html_(self) -> str:
        facts = {name: str(value) for name, value in self.to_dict().items()}
        return card_html("Manifest", facts_html(facts))


def write_manifest(state: TableState, *, absolute: bool, dry_run: bool) -> ManifestReport:
    """Replace a manifest by the base files of the newest snapshot; readers see the old one or the
    new one.

    absolute: URLs; otherwise names of files.  Cost: one listing, and one small file.
    Raises UnsupportedTableError for a bootstrapped table whose base files have meta columns only.
    """
    view = state.view()
    bases = [found.base for found in view.latest_base_slices() if found.base is not None]
    if any(base.source is not None for base in bases):
        raise UnsupportedTableError(
            "a manifest cannot list base files whose columns are in other files",
            path=state.fs.url,
            hint="cluster the bootstrapped partitions first",
        )
    root = as_url(state.fs.url)
    lines = [f"{root}/{base.path}" if absolute else str(base.name) for base in bases]
    path = join(_FOLDERS[absolute], _NAME)
    if not dry_run:
        state.fs.replace(path, "".join(f"{line}\n" for line in lines).encode())
    newest = state.timeline.commits.last
    return ManifestReport(
        path,
        None if newest is None else newest.time,
        len(bases),
        sum(len(found.logs) for found in view.latest_slices()),
        dry_run,
    )
