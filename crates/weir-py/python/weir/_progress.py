"""A progress bar over the bytes of the input, in a terminal or a notebook."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

from . import _weir

INTERVAL = 0.2
"""Seconds between two looks at the progress."""


class Bar:
    """Shows the progress of a run while it is read. Uses tqdm if it is installed; a line of text otherwise."""

    def __init__(self, stream: _weir.Stream) -> None:
        self._stream = stream
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, name="weir-progress", daemon=True)

    def __enter__(self) -> Bar:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _show(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._show_line()
            return
        with tqdm(unit="B", unit_scale=True, leave=False) as bar:
            self._watch(lambda read, whole: self._set(bar, read, whole))

    @staticmethod
    def _set(bar: Any, read: int, whole: int | None) -> None:
        bar.total = whole
        bar.update(read - bar.n)

    def _show_line(self) -> None:
        def line(read: int, whole: int | None) -> None:
            part = f" of {whole / 1e6:.1f}" if whole else ""
            print(f"\r{read / 1e6:.1f}{part} MB", end="", file=sys.stderr, flush=True)

        self._watch(line)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _watch(self, show: Any) -> None:
        while not self._done.wait(INTERVAL):
            show(*self._stream.progress)
        show(*self._stream.progress)
