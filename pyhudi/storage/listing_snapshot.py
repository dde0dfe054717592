"""A listing of an object store made once, for one folder or for everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyhudi.storage.filesystem import FileInfo, checked
from pyhudi.storage.object_store import PAGE, ObjectStoreFileSystem


class WalkedObjectStore(ObjectStoreFileSystem):
    """An object store that answers listings of one folder (empty: any) from one earlier listing.

    For readers that list several folders of a table at one time: a request returns
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
        """Whether the listing covers the whole store, not only one folder."""
        return not self._folder

    @classmethod
    def of(cls, fs: ObjectStoreFileSystem, folder: str) -> WalkedObjectStore:
        """A listing of a folder whose name sorts before most others; of the whole store if that
        costs no further request.

        If the pages of the whole, in name order, extend past the folder, they contain all of it;
        if they have another order, or much precedes the folder, only the folder is listed.
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
            if names[-1] > f"{folder}0":  # as "0" sorts after "/"
                return cls(fs, folder, (i for i in found if i.path.startswith(f"{folder}/")))
        return cls(fs, "", found)

    def tag(self, path: str) -> str | None:
        """The tag of a file when it was listed; None if it did not exist."""
        info = self._walked.get(self._prefix + path)
        return None if info is None else info.tag

    def sub(self, folder: str) -> ObjectStoreFileSystem:
        deeper = WalkedObjectStore.__new__(WalkedObjectStore)
        deeper.__dict__.update(self.__dict__)
        deeper._url = f"{self._url}/{checked(folder)}"
        deeper._root = self._name(folder)
        deeper._prefix = f"{self._prefix}{folder}/"
        return deeper.below_lock_of(self)

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
