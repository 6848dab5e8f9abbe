"""Where captures and their indices are stored: files of this machine, or URLs that fsspec or pyarrow opens."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

INDEX_SUFFIX = ".weir-index"
"""What the name of an index has beyond that of its capture."""

READ_BYTES = 8 << 20
"""Bytes of a request, at most."""


class Stored(NamedTuple):
    """A capture where it is stored."""

    name: str
    size_bytes: int
    stamp: int
    """A number that changes with the contents: the time of change in nanoseconds, if there is one."""


class Store(Protocol):
    """A place of captures."""

    @property
    def opener(self) -> object | None:
        """What opens captures for the engine: an object with a method ``open(name, start, bytes)``. `None`: the names are those of files."""
        ...

    def find(self, pattern: str) -> list[Stored]:
        """The captures that a path names: a file, a pattern, or all files of a folder."""
        ...

    def read(self, name: str) -> bytes | None:
        """The contents of a file; `None` if there is none."""
        ...

    def write(self, name: str, contents: bytes) -> None:
        """Writes a file at once: readers see all of the file, or nothing."""
        ...


def is_capture(name: str) -> bool:
    """Whether a file of a folder is a capture: neither hidden nor an index, and none that is being written."""
    base = name.rstrip("/").rsplit("/", 1)[-1]
    return not base.startswith((".", "_")) and not base.endswith((INDEX_SUFFIX, ".tmp", ".part"))


def store_of(path: str) -> tuple[Store, str]:
    """The store of a path, and the path as the store names files."""
    parts = urlsplit(path)
    if not parts.scheme or parts.scheme == "file" or len(parts.scheme) == 1:
        return LocalStore(), parts.path if parts.scheme == "file" else path
    # Hadoop's names of S3.
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return RemoteStore(scheme), f"{scheme}{path[len(parts.scheme) :]}"


class LocalStore:
    """Files of this machine, or of a file system that is mounted at the same place on all machines."""

    @property
    def opener(self) -> None:
        """The engine opens files itself."""

    def find(self, pattern: str) -> list[Stored]:
        """The files that a path names."""
        if os.path.isdir(pattern):
            paths = [entry.path for entry in os.scandir(pattern) if is_capture(entry.name)]
        elif os.path.exists(pattern):
            paths = [pattern]
        else:
            paths = [path for path in glob.glob(pattern, recursive=True) if is_capture(path)]
        found = []
        for path in sorted(paths):
            # A file may go while the folder is read.
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(path)
                if os.path.isfile(path):
                    found.append(Stored(os.path.abspath(path), about.st_size, about.st_mtime_ns))
        return found

    def read(self, name: str) -> bytes | None:
        """The contents of a file."""
        try:
            with open(name, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, contents: bytes) -> None:
        """Writes a file at once."""
        folder = os.path.dirname(name) or "."
        handle, part = tempfile.mkstemp(dir=folder, prefix=".weir-", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.chmod(part, 0o644)
            os.replace(part, name)
        except BaseException:
            os.unlink(part)
            raise


class RemoteStore:
    """Files behind URLs, through fsspec if it knows the scheme, else through pyarrow."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    @property
    def opener(self) -> RemoteStore:
        """The store itself."""
        return self

    def _system(self, url: str) -> Any:
        try:
            import fsspec

            return fsspec.core.url_to_fs(url)[0]
        except (ImportError, ValueError) as missing:
            try:
                import pyarrow.fs
                from fsspec.implementations.arrow import ArrowFSWrapper

                return ArrowFSWrapper(pyarrow.fs.FileSystem.from_uri(url)[0])
            except Exception as error:
                raise ImportError(f"{url}: neither fsspec ({missing}) nor pyarrow ({error}) opens it") from None

    def _url(self, path: str) -> str:
        return path if "://" in path else f"{self._scheme}://{path.lstrip('/') if self._scheme != 'hdfs' else path}"

    def find(self, pattern: str) -> list[Stored]:
        """The files that a path names."""
        system = self._system(pattern)
        if any(sign in pattern for sign in "*?["):
            abouts = list(system.glob(pattern, detail=True).values())
        elif system.isdir(pattern):
            abouts = system.ls(pattern, detail=True)
        else:
            abouts = [system.info(pattern)]
        files = [one for one in abouts if one.get("type", "file") == "file" and is_capture(one["name"])]
        return sorted(Stored(self._url(one["name"]), int(one.get("size") or 0), _stamp(one)) for one in files)

    def read(self, name: str) -> bytes | None:
        """The contents of a file."""
        try:
            return bytes(self._system(name).cat_file(name))
        except FileNotFoundError:
            return None

    def write(self, name: str, contents: bytes) -> None:
        """Writes an object."""
        self._system(name).pipe_file(name, contents)

    def open(self, name: str, start: int, length: int | None) -> Range:
        """A reader of a range of bytes, for the engine."""
        return Range(self._system(name), name, start, length)


class Range:
    """Reads a range of a file with requests of a few megabytes."""

    def __init__(self, system: Any, name: str, start: int, length: int | None) -> None:
        self._system, self._name = system, name
        size = int(system.info(name)["size"])
        self._at = start
        self._end = size if length is None else min(size, start + length)
        self._bytes = memoryview(b"")

    def read(self, length: int) -> bytes:
        """The next bytes; none at the end of the range."""
        if not self._bytes and self._at < self._end:
            end = min(self._end, self._at + READ_BYTES)
            self._bytes = memoryview(self._system.cat_file(self._name, start=self._at, end=end))
            if not self._bytes:
                self._end = self._at
            self._at += len(self._bytes)
        taken, self._bytes = self._bytes[:length], self._bytes[length:]
        return bytes(taken)


def _stamp(about: dict[str, Any]) -> int:
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value: Any = about.get(key)
        if value is not None and hasattr(value, "timestamp"):
            return int(value.timestamp() * 1e9)
        if isinstance(value, (int, float)):
            return int(value * 1e9)
    text = str(about.get("ETag") or about.get("etag") or about.get("size"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


def paths_of(text: Sequence[str]) -> list[str]:
    """The paths of an option that names several, divided by commas."""
    return [path.strip() for one in text for path in one.split(",") if path.strip()]
