"""One moment's listing of an object store, of one folder or of all there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyhudi.storage.filesystem import FileInfo, checked
from pyhudi.storage.object_store import PAGE, ObjectStoreFileSystem


class WalkedObjectStore(ObjectStoreFileSystem):
    """An object store that answers listings of one folder (empty: of any) from a walk made once.

    For readers that look at several folders of a table at one moment: a walk is one request for
    a thousand names.  Pickles as the plain store.
    """

    def __init__(self, fs: ObjectStoreFileSystem, folder: str, files: Iterable[FileInfo]) -> None:
        super().__init__(fs.url, fs.options, bucket=fs._buckets)
        self._prefix = ""
        self._folder = folder
        self._walked = {info.path: info for info in files}
        self._entries: dict[str, dict[str, FileInfo]] = {}
        for path, info in self._walked.items():
            parent, child = path, info
            while parent:
                parent = parent.rpartition("/")[0]
                known = self._entries.setdefault(parent, {})
                if child.path in known:
                    break
                known[child.path] = child
                child = FileInfo(parent, 0, True)

    @property
    def is_whole(self) -> bool:
        """Whether the walk went over all there is, not over one folder only."""
        return not self._folder

    @classmethod
    def of(cls, fs: ObjectStoreFileSystem, folder: str) -> WalkedObjectStore:
        """A walk of a folder whose name comes before most others; of all there is, where that
        costs no request more.

        Where the pages of the whole, in the order of names, run past the folder, they hold all of
        it; where they come in another order, or with much before the folder, it is walked alone.
        """
        found: list[FileInfo] = []
        for page in fs.pages():
            names = [info.path for info in page]
            ordered = names == sorted(names) and (not found or found[-1].path <= names[0])
            found += page
            if len(page) < PAGE:
                break
            if not ordered or names[-1] < folder:
                return cls(fs, folder, fs.below(folder))
            if names[-1] > f"{folder}0":  # as "0" comes after "/"
                return cls(fs, folder, (i for i in found if i.path.startswith(f"{folder}/")))
        return cls(fs, "", found)

    def tag(self, path: str) -> str | None:
        """The tag of a file as it was then; None if it was not there."""
        info = self._walked.get(self._prefix + path)
        return None if info is None else info.tag

    def sub(self, folder: str) -> ObjectStoreFileSystem:
        deeper = WalkedObjectStore.__new__(WalkedObjectStore)
        deeper.__dict__.update(self.__dict__)
        deeper._url = f"{self._url}/{checked(folder)}"
        deeper._root = self._name(folder)
        deeper._prefix = f"{self._prefix}{folder}/"
        return deeper

    def children(self, folder: str = "") -> list[FileInfo]:
        place = (self._prefix + checked(folder)).rstrip("/")
        if self._folder and place != self._folder and not place.startswith(self._folder + "/"):
            return super().children(folder)
        cut = len(self._prefix)
        found = self._entries.get(place, {}).values()
        return sorted(
            (replace(i, path=i.path[cut:]) for i in found),
            key=lambda info: info.path,
        )

    def exists(self, path: str) -> bool:
        place = self._prefix + checked(path)
        if self._folder and not place.startswith(self._folder + "/"):
            return super().exists(path)
        return place in self._walked or place in self._entries
