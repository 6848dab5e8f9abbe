"""Indices of captures: made once, and kept beside the captures or in a folder of their own."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from . import _weir
from ._errors import CaptureError, WeirWarning
from ._spark_files import INDEX_SUFFIX, Store, Stored, store_of

CHUNK_BYTES = 16 << 20
"""Uncompressed bytes of a chunk."""


class About(NamedTuple):
    """What an index says."""

    identity: tuple[int, int, int, int]
    packets: int
    interfaces: int
    chunks: int
    size_bytes: int
    times: tuple[int, int] | None
    """The earliest and the latest time of a packet, nanoseconds since 1970."""
    error: str | None


class Indexed(NamedTuple):
    """A capture and its index."""

    capture: Stored
    contents: bytes
    """The index."""
    about: About


class Indices:
    """Finds and makes the indices of captures, for the settings of an input."""

    def __init__(self, store: Store, input_options: Mapping[str, Any], folder: str | None, chunk_bytes: int | None) -> None:
        self._store = store
        self._input = json.dumps(input_options)
        self._folder = folder
        self._chunk_bytes = chunk_bytes
        self._settings = _settings_number(input_options)

    def of(self, captures: Sequence[Stored], threads: int | None = None) -> tuple[list[Indexed], list[str]]:
        """The captures with indices, and what could not be read. Indices that are missing are made on some threads."""
        with ThreadPoolExecutor(max_workers=threads or os.cpu_count()) as pool:
            found = list(pool.map(self._of, captures))
        return [one for one in found if isinstance(one, Indexed)], [one for one in found if isinstance(one, str)]

    def _of(self, capture: Stored) -> Indexed | str:
        """The capture with its index, or why there is none."""
        store, name = self._place(capture)
        index = store.read(name)
        about = index and self._about(capture, index)
        if not index or not about:
            identity = (capture.size_bytes, capture.stamp, self._settings, self._chunk_bytes or CHUNK_BYTES)
            try:
                opener: Any = self._store.opener
                source = None if opener is None else opener.open(capture.name, 0, None)
                index = _weir.lake_index(capture.name, source, identity, self._input)
            except CaptureError as error:
                return str(error)
            except Exception as error:
                if self._store.opener is None:
                    raise
                return f"{capture.name}: {error}"
            about = self._about(capture, index)
            assert about is not None, "an index that was just made fits its capture"
            try:
                store.write(name, index)
            except Exception as error:
                text = f"the index of {capture.name} cannot be kept, and is made again each time: {error}; name a folder for it: option `index`"
                warnings.warn(text, WeirWarning, stacklevel=2)
        return Indexed(capture, index, about)

    def _place(self, capture: Stored) -> tuple[Store, str]:
        """Where the index of a capture is kept."""
        if self._folder is None:
            return self._store, capture.name + INDEX_SUFFIX
        store, folder = store_of(self._folder)
        # Captures of several folders may have one name.
        number = hashlib.blake2b(capture.name.encode(), digest_size=8).hexdigest()
        return store, f"{folder.rstrip('/')}/{os.path.basename(capture.name)}.{number}{INDEX_SUFFIX}"

    def _about(self, capture: Stored, index: bytes) -> About | None:
        """What an index says; `None` if it is of another state of the capture, of other settings, or damaged."""
        said = _weir.lake_about(index)
        if said is None:
            return None
        about = About(*said)
        size_bytes, stamp, settings, chunk_bytes = about.identity
        fits = (size_bytes, stamp, settings) == (capture.size_bytes, capture.stamp, self._settings)
        return about if fits and chunk_bytes == (self._chunk_bytes or chunk_bytes) else None


def _settings_number(input_options: Mapping[str, Any]) -> int:
    """A number of everything that decides about connections: the options of the input, with the texts of stacks, and the version."""
    texts = []
    stack = input_options.get("stack", [])
    for name in [stack] if isinstance(stack, str) else stack:
        if name.endswith(".weir"):
            with open(name, encoding="utf-8") as file:
                texts.append(file.read())
    whole = json.dumps([_weir.version(), dict(input_options), texts], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=7).digest(), "big")
