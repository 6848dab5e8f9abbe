"""Captures by name: paths, globs, URLs and file objects."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Union

OWN_SCHEMES = ("tcp", "tcp-listen", "udp", "tzsp")
"""Schemes that the engine reads itself."""


class Readable(Protocol):
    """A binary file object."""

    def read(self, size: int = -1, /) -> bytes: ...


Source = Union[str, "os.PathLike[str]", Readable]
"""A path, a glob, a URL, or a binary file object."""


class Inputs:
    """The inputs of runs: names that the engine opens, and objects that are copied into a pipe for each run."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._makers: list[str | Callable[[], str]] = []
        self.failures: list[str] = []
        """Objects that could not be read to their end."""
        for source in sources:
            self._makers.extend(self._of(source))

    def _of(self, source: Source) -> list[str | Callable[[], str]]:
        if not isinstance(source, (str, os.PathLike)):
            return [lambda: _piped(lambda: _rewound(source), _name_of(source), self.failures)]
        name = os.fspath(source)
        scheme = name.split("://", 1)[0] if "://" in name else ""
        if scheme and scheme not in OWN_SCHEMES:
            return [lambda: _piped(lambda: _open_url(name), os.path.basename(name), self.failures)]
        if scheme or name == "-" or name.startswith("tcp-listen:") or os.path.exists(name):
            return [name]
        if glob.has_magic(name):
            found = sorted(glob.glob(name, recursive=True))
            if found:
                return list(found)
            raise FileNotFoundError(f"no file matches `{name}`")
        raise FileNotFoundError(f"{name}: no such file")

    def names(self) -> tuple[list[str], list[str]]:
        """The names for one run, and those among them that are pipes."""
        self.failures.clear()
        names = [maker if isinstance(maker, str) else maker() for maker in self._makers]
        return names, [name for name, maker in zip(names, self._makers, strict=True) if not isinstance(maker, str)]

    def stated(self) -> list[str]:
        """The names for questions that are only checked: nothing is opened."""
        return [maker if isinstance(maker, str) else os.devnull for maker in self._makers]


def _name_of(source: Readable) -> str:
    name = getattr(source, "name", None)
    return os.path.basename(name) if isinstance(name, str) else "capture"


def _rewound(source: Any) -> Any:
    """A file object from its beginning, if it can be read again."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        source.seek(0)
    return contextlib.nullcontext(source)


def _open_url(url: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{url}: URLs need the package fsspec (pip install fsspec)") from error
    return fsspec.open(url, "rb")


def _piped(opened: Callable[[], Any], name: str, failures: list[str]) -> str:
    """The path of a named pipe that a thread fills from an object, once the engine reads it."""
    folder = tempfile.mkdtemp(prefix="weir-")
    path = os.path.join(folder, name or "capture")
    os.mkfifo(path, 0o600)
    pipe = _Pipe(folder, path, failures)
    threading.Thread(target=pipe.fill, args=(opened,), name="weir-input", daemon=True).start()
    return path


class _Pipe:
    def __init__(self, folder: str, path: str, failures: list[str]) -> None:
        self.path = path
        self._failures = failures
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True)

    def fill(self, opened: Callable[[], Any]) -> None:
        try:
            # Waits until the engine opens the pipe, or its run is over: the pipe is gone then.
            descriptor = os.open(self.path, os.O_WRONLY)
        except FileNotFoundError:
            return
        finally:
            self._remove()
        # The engine may end before the object does.
        with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as pipe:
            try:
                with opened() as source:
                    shutil.copyfileobj(source, pipe, 1 << 20)
            except BrokenPipeError:
                raise
            except Exception as error:
                self._failures.append(f"{os.path.basename(self.path)}: {error}")
