"""Captures, and the questions about them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _weir
from ._errors import CaptureError, _tell
from ._kinds import Kinds
from ._progress import Bar
from ._result import Result, _record_batches
from ._rows import Columns, Row
from ._sources import Inputs, Source

QUESTIONS_BYTES = 256 << 20
"""Bytes of rows between the engine and the readers of several questions."""


class Capture(Kinds):
    """What is read, and with which options. Each kind of question is a method: ``flows``, ``tls``, ``aggregate`` …"""

    def __init__(
        self,
        sources: Sequence[Source],
        interfaces: Sequence[str],
        progress: bool,
        damaged: str,
        options: Mapping[str, Any],
    ) -> None:
        if damaged not in ("raise", "warn"):
            raise ValueError(f'damaged={damaged!r}: there are "raise" and "warn"')
        self._damaged = damaged
        self._inputs = Inputs(sources)
        self._interfaces = list(interfaces)
        self._progress = progress
        self._options = json.dumps({key: _plain(value) for key, value in options.items()})

    def _run(self, questions: list[tuple[str, str, str]], stated: bool) -> _weir.Run:
        names, pipes = (self._inputs.stated(), []) if stated else self._inputs.names()
        return _weir.Run(names, self._interfaces, self._options, questions, pipes)

    @contextlib.contextmanager
    def _watched(self, stream: _weir.Stream) -> Iterator[None]:
        """Shows the progress of a stream. Adds to its errors those of objects that could not be read."""
        with Bar(stream) if self._progress else contextlib.nullcontext():
            try:
                yield
            except CaptureError as error:
                raise CaptureError([*self._inputs.failures, *error.errors]) from None

    def _finish(self) -> None:
        """The end of a run whose captures were read to the end: objects that could not be read are errors."""
        if not self._inputs.failures:
            return
        if self._damaged == "raise":
            raise CaptureError(list(self._inputs.failures))
        for failure in self._inputs.failures:
            _tell(failure, True)

    def ask(self, kind: str, /, **options: Any) -> Result:
        """The rows of a question by the name of its kind; `weir.logs` lists the kinds.

        >>> import weir
        >>> len(list(weir.read("examples/first-light.pcap").ask("flows", filter="udp", limit=2)))
        2
        """
        return Result(self, kind, {key.removesuffix("_"): _plain(value) for key, value in options.items()})

    def __repr__(self) -> str:
        read = self._interfaces or self._inputs.stated()
        return f"<weir.Capture: {', '.join(read)}>"


def _plain(value: Any) -> Any:
    """A value as JSON has it: paths become text."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return str(value)


def read(*sources: Source, progress: bool = False, damaged: str = "raise", **options: Any) -> Capture:
    """Captures in files (pcap, pcapng; plain, gzip, zstd, lz4): paths, globs, binary file objects, URLs that fsspec opens, and
    the other inputs of ``weir -r``. Several are merged by time. Nothing is read yet.

    ``progress`` shows a bar while rows are read. ``damaged`` is what follows the rows of captures that could not be read to their end:
    ``"raise"`` a `CaptureError`, ``"warn"`` a `WeirWarning`. ``options`` are those of the command for its input, with underscores:
    ``stack="mine.weir"``, ``workers=2``, ``idle_timeout="5m"``, ``memory="1G"``, ``bpf=True``.

    >>> import weir
    >>> capture = weir.read("examples/*.pcap")
    >>> [row.server_name for row in weir.read("examples/first-light.pcap").tls("tls.sni ~ 'shop'", columns=["server_name"])]
    ['shop.example.net']
    """
    return Capture(sources, [], progress, damaged, options)


def open(*interfaces: str, **options: Any) -> Capture:
    """Live traffic of interfaces (root, or CAP_NET_RAW): rows come as packets do, until their iterator is closed.

    >>> import weir
    >>> weir.open("lo", mode="strict").flows("tcp")
    <weir.Result: flows(filter='tcp'), 31 columns>
    """
    return Capture([], interfaces, False, "raise", options)


class Answers(Mapping[str, "Answer"]):
    """The answers to several questions of one pass, by name. Each can be read once.

    The rows of a question that is not read wait in memory, up to ``queue_bytes`` for each question. When there is no room, the run waits
    for the reader; if nobody has begun to read them while somebody waits for other rows, the run ends with `WeirError`.
    """

    def __init__(self, capture: Capture, run: _weir.Run, names: list[str], queue_bytes: int) -> None:
        self._capture = capture
        streams = zip(names, run.columns, run.streams(queue_bytes, capture._damaged), strict=True)
        self._answers = {name: Answer(capture, Columns(columns), stream) for name, columns, stream in streams}

    def __getitem__(self, name: str) -> Answer:
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def rows(self) -> Iterator[tuple[str, Row]]:
        """The rows of all questions with the names of their questions, as they come, in bounded memory.

        >>> import weir
        >>> capture = weir.read("examples/first-light.pcap")
        >>> with weir.questions({"names": capture.tls(), "all": capture.flows()}) as answers:
        ...     sorted({name for name, _ in answers.rows()})
        ['all', 'names']
        """
        open_streams = dict(self._answers)
        while open_streams:
            for name, answer in list(open_streams.items()):
                # Only the last question is waited for without an end.
                rows = answer._stream.rows(POLL_SECONDS if len(open_streams) > 1 else None)
                if rows is None:
                    del open_streams[name]
                    if not open_streams:
                        self._capture._finish()
                    continue
                for row in rows:
                    yield name, Row(answer.columns, row)

    def close(self) -> None:
        """Ends the run."""
        for answer in self._answers.values():
            answer._stream.close()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


POLL_SECONDS = 0.005
"""Time to wait for the rows of one of several questions."""


class Answer:
    """The rows of one of several questions, which can be read once: as an Arrow stream, or one after the other."""

    def __init__(self, capture: Capture, columns: Columns, stream: _weir.Stream) -> None:
        self._capture = capture
        self._stream = stream
        self.columns = columns
        """The names, types and meanings of the columns."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for other packages."""
        return self._stream.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of the rows, for other packages."""
        return self._stream.__arrow_c_schema__()

    def __iter__(self) -> Iterator[Row]:
        """The rows, one after the other."""
        while (rows := self._stream.rows()) is not None:
            for row in rows:
                yield Row(self.columns, row)
        self._capture._finish()

    def batches(self) -> Iterator[Any]:
        """The rows as ``pyarrow.RecordBatch`` objects, as they come."""
        yield from _record_batches(self._stream, self._capture)


def questions(results: Mapping[str, Result] | Sequence[Result], *, queue_bytes: int = QUESTIONS_BYTES) -> Answers:
    """Answers several questions about one capture in one pass. Results without names are named after their kinds.

    >>> import weir
    >>> capture = weir.read("examples/first-light.pcap")
    >>> answers = weir.questions([capture.tls(), capture.flows("tcp")])
    >>> {name: len(list(answer)) for name, answer in answers.items()}
    {'tls': 24, 'flows': 47}
    """
    named = dict(results) if isinstance(results, Mapping) else {one._kind: one for one in results}
    if not named or len(named) != len(results):
        raise ValueError("state at least one question, and give names to several of one kind: {'a': …, 'b': …}")
    capture, *others = {id(one._capture): one._capture for one in named.values()}.values()
    if others:
        raise ValueError("the questions of one pass are about one capture: ask the object of one `weir.read`")
    stated = [(name, one._kind, json.dumps(one._options)) for name, one in named.items()]
    return Answers(capture, capture._run(stated, False), list(named), queue_bytes)
