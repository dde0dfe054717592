"""Descriptors of Protobuf messages, from the text or the bytes of their files.

A registry has the text of a `.proto` file, which the compiler of the package grpcio-tools reads in
a process of its own, or its FileDescriptorProto in base64, as the serializer of confluent-kafka
registers it.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pyhudi.errors import CorruptFileError, UserError
from pyhudi.ingest.message_formats.schema_registry import RegisteredSchema
from pyhudi.libraries import load_library

_MAIN: Final = "pyhudi_message.proto"
_COMPILER: Final = "grpc_tools"
_COMPILER_SECONDS: Final = 60


def registered_file(registered: RegisteredSchema) -> Any:
    """The FileDescriptor of a registered schema.

    Raises CorruptFileError for a schema that does not compile, UserError without the libraries.
    """
    texts = {**registered.references, _MAIN: registered.text}
    encoded = {name: _decoded(text) for name, text in texts.items()}
    files = [file for file in encoded.values() if file is not None]
    if len(files) < len(texts):
        if files:
            raise CorruptFileError("the schema refers to schemas in another form")
        return file_in(_compiled(texts), _MAIN)
    for name, file in zip(encoded, files, strict=True):
        file.name = name
    return file_in(files, _MAIN)


def files_of(path: str) -> list[Any]:
    """The files of a descriptor set (`protoc --include_imports --descriptor_set_out`)."""
    found = _library().FileDescriptorSet()
    try:
        found.ParseFromString(Path(path.removeprefix("file://")).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            "the set of descriptors cannot be read",
            path=path,
            reason=str(error),
            hint="protoc --include_imports --descriptor_set_out=FILE writes one",
        ) from None
    return list(found.file)


def file_in(files: Sequence[Any], name: str) -> Any:
    """The FileDescriptor with this name among FileDescriptorProtos that may import each other."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    try:
        for file in _with_imports(files):
            pool.Add(file)
        return pool.FindFileByName(name)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError("the schema is not valid Protobuf", reason=str(error)) from None


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    """The Descriptor of a message: its place in the file, then in the message around it.

    Raises CorruptFileError for a place without a message.
    """
    found: Any = None
    for index in indexes:
        around = file.message_types_by_name if found is None else found.nested_types_by_name
        messages = list(around.values())
        if not 0 <= index < len(messages):
            raise CorruptFileError("the schema has no message at this place", place=list(indexes))
        found = messages[index]
    if found is None:
        raise CorruptFileError("the message names no type")
    return found


def _with_imports(files: Sequence[Any]) -> list[Any]:
    """The files and those of the package protobuf that they import, imported ones first."""
    known = {file.name: file for file in files}
    ordered: dict[str, Any] = {}
    open_ = [file.name for file in reversed(files)]
    visited: set[str] = set()
    while open_:
        name = open_[-1]
        file = known.get(name) or known.setdefault(name, _included(name))
        rest = [each for each in file.dependency if each not in ordered and each not in visited]
        visited.add(name)
        if rest:
            open_ += rest
        else:
            ordered.setdefault(open_.pop(), file)
    return list(ordered.values())


def _included(name: str) -> Any:
    """A file that comes with the package protobuf."""
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if not name.startswith("google/protobuf/") or find_spec(module) is None:
        raise CorruptFileError("the schema imports an unknown file", imported=name)
    found = _library().FileDescriptorProto()
    import_module(module).DESCRIPTOR.CopyToProto(found)
    return found


def _decoded(text: str) -> Any | None:
    """The FileDescriptorProto of a text in base64; None for other texts."""
    library = _library()
    try:
        found = library.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


def _compiled(texts: Mapping[str, str]) -> list[Any]:
    """texts: of files, by their names."""
    compiler = load_library(_COMPILER, extra="protobuf", needed_for="the schemas of Protobuf")
    with tempfile.TemporaryDirectory(prefix="pyhudi-proto-") as folder:
        sources, out = Path(folder, "in"), Path(folder, "out")
        _write(sources, texts)
        included = Path(str(compiler.__file__)).parent / "_proto"
        command = [
            sys.executable, "-m", f"{_COMPILER}.protoc", f"-I{sources}", f"-I{included}",
            "--include_imports", f"--descriptor_set_out={out}", _MAIN,
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMPILER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise CorruptFileError("the schema takes too long to compile") from None
        if ended.returncode:
            reason = "; ".join(ended.stderr.strip().splitlines()[:3])
            raise CorruptFileError("the schema does not compile", reason=reason)
        return files_of(str(out))


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Raises CorruptFileError for a name outside the folder."""
    for name, text in texts.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\0" in name or not place.parts:
            raise CorruptFileError("a reference has an invalid name", reference=name)
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _library() -> Any:
    return load_library(
        "google.protobuf.descriptor_pb2", extra="protobuf", needed_for="reading Protobuf"
    )
