"""One moment's listing of a folder of an object store."""

from __future__ import annotations

from pyhudi.storage.filesystem import FileInfo, checked
from pyhudi.storage.object_store import ObjectStoreFileSystem


class WalkedObjectStore(ObjectStoreFileSystem):
    """An object store that answers listings of one folder from a walk made once.

    For readers that look at several folders of a table at one moment: a walk is one request for
    a thousand names.  Pickles as the plain store.
    """

    def __init__(self, fs: ObjectStoreFileSystem, folder: str) -> None:
        super().__init__(fs.url, fs.options, bucket=fs.bucket)
        self._prefix = ""
        self._folder = folder
        self._walked = {info.path: info for info in fs.below(folder)}
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
        if place != self._folder and not place.startswith(self._folder + "/"):
            return super().children(folder)
        cut = len(self._prefix)
        found = self._entries.get(place, {}).values()
        return sorted(
            (FileInfo(i.path[cut:], i.size_bytes, i.is_folder, i.tag) for i in found),
            key=lambda info: info.path,
        )

    def exists(self, path: str) -> bool:
        place = self._prefix + checked(path)
        if not place.startswith(self._folder + "/"):
            return super().exists(path)
        return place in self._walked or place in self._entries
