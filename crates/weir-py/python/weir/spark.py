"""Captures as a data source of Spark 4.

``spark.dataSource.register(weir.spark.WeirDataSource)`` makes the format ``weir`` known; ``docs/spark.md`` is the manual.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from . import _weir
from ._capture import read
from ._errors import CaptureError, WeirError
from ._result import QUEUE_BYTES
from ._spark_files import Store, Stored, paths_of, store_of
from ._spark_filter import filter_of
from ._spark_index import Indexed, Indices
from ._spark_schema import Converter, arrow_of, schema_of

PARTITION_BYTES = 128 << 20
"""Bytes of a partition, unless their number is given."""

WHOLE = ("aggregate", "records")
"""Kinds whose rows are about several connections: one task reads everything."""

INDEX_LOG = "index"
"""The log with a row for each capture: the indices are made by the tasks."""

REFUSED = ("names", "limit", "sort", "files", "extract", "extract_max", "max_count")
"""Options of questions whose meaning depends on all rows, or which write files."""

OWN = (
    "path", "paths", "log", "partitions", "partitionBytes", "index", "chunkBytes", "errors", "nanoseconds", "pushdown",
    "settle", "cut", "maxFiles",
)  # fmt: skip
"""Options of the data source; all others are those of the question and of the input."""

LISTS = ("columns", "events", "patterns")
"""Options of questions with several values, divided by commas; patterns are divided by line breaks."""

SCALARS = {"true": True, "false": False}


class Plan(NamedTuple):
    """What a reader needs, from the options of a load."""

    store: Store
    paths: list[str]
    kind: str
    question: dict[str, Any]
    input: dict[str, Any]
    errors: str
    indices: Indices


class Task(InputPartition):  # type: ignore[misc, unused-ignore]
    """The part of a task."""

    def __init__(self, task: bytes) -> None:
        self.task = task


class ToIndex(InputPartition):  # type: ignore[misc, unused-ignore]
    """A capture whose index a task makes."""

    def __init__(self, capture: tuple[str, int, int]) -> None:
        self.capture = capture


class Options:
    """The options of a load. Spark's options have no case, and all values are texts."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._all = {key.lower(): value for key, value in options.items()}

    def get(self, name: str, default: str = "") -> str:
        """An option of the data source."""
        return self._all.get(name.lower(), default)

    def number(self, name: str) -> int | None:
        """An option with a whole number."""
        text = self.get(name)
        try:
            return int(text) if text else None
        except ValueError:
            raise WeirError(f"option {name}: `{text}` is no whole number") from None

    def flag(self, name: str) -> bool:
        """An option that is true or false."""
        text = self.get(name, "false").lower()
        if text not in SCALARS:
            raise WeirError(f"option {name}: `{text}` is neither true nor false")
        return SCALARS[text]

    def seconds(self, name: str, default: float) -> float:
        """An option with a span of time: ``90``, ``15m``, ``1h``."""
        text = self.get(name)
        if not text:
            return default
        factors = {"s": 1, "m": 60, "h": 3600, "d": 86400}
        number, factor = (text[:-1], factors[text[-1]]) if text[-1] in factors else (text, 1)
        try:
            return float(number) * factor
        except ValueError:
            raise WeirError(f"option {name}: `{text}` is no span of time, such as 90s, 15m or 1h") from None

    def paths(self) -> list[str]:
        """The paths of the load."""
        several = self.get("paths")
        paths = json.loads(several) if several.startswith("[") else paths_of([several])
        paths += paths_of([self.get("path")])
        if not paths:
            raise WeirError("no captures: name them, as in .load('/captures/*.pcap')")
        return paths

    def plan(self) -> Plan:
        """The parts of the options."""
        kinds = {name: options for name, _, options, _ in _weir.kinds()}
        kind = self.get("log", "flows")
        if kind not in kinds and kind != INDEX_LOG:
            raise WeirError(f"there is no log `{kind}`; there are {', '.join(kinds)}")
        own = {name.lower() for name in OWN}
        question: dict[str, Any] = {}
        of_input: dict[str, Any] = {}
        for key, value in self._all.items():
            if key in own:
                continue
            if key in REFUSED:
                raise WeirError(f"option {key}: Spark does this, over the rows of all tasks")
            target = question if key in kinds.get(kind, []) else of_input
            target[key] = _value(value)
        for name in LISTS:
            if name in question:
                values = self._all[name].split("\n" if name == "patterns" else ",")
                question[name] = [value.strip() for value in values]
        errors = self.get("errors", "column")
        if errors not in ("column", "fail", "ignore"):
            raise WeirError(f"option errors: `{errors}` is none of column, fail, ignore")
        stores = [store_of(path) for path in self.paths()]
        if len({type(store).__name__ + getattr(store, "_scheme", "") for store, _ in stores}) > 1:
            raise WeirError("the captures of one load are of one file system")
        store, chunk_bytes = stores[0][0], self.number("chunkBytes")
        indices = Indices(store, of_input, self.get("index") or None, chunk_bytes)
        return Plan(store, [path for _, path in stores], kind, question, of_input, errors, indices)


def _value(text: str) -> Any:
    lower = text.lower()
    if lower in SCALARS:
        return SCALARS[lower]
    return int(text) if text.isascii() and text.isdigit() else text


def _arrow_schema(kind: str, question: dict[str, Any], of_input: dict[str, Any]) -> Any:
    import pyarrow

    return pyarrow.schema(read(os.devnull, **of_input).ask(kind, **_named(kind, question, of_input)))


def _named(kind: str, question: dict[str, Any], of_input: dict[str, Any]) -> dict[str, Any]:
    """A question whose columns have the names of Weir."""
    if "columns" not in question:
        return question
    known = read(os.devnull, **of_input).ask(kind).columns.names
    names = {name.replace(".", "_"): name for name in known}
    return {**question, "columns": [names.get(name, name) for name in question["columns"]]}


INDEX_SCHEMA = "file string, bytes long, packets long, chunks long, first_time timestamp, last_time timestamp, index_bytes long, _error string"


class WeirDataSource(DataSource):  # type: ignore[misc, unused-ignore]
    """The format ``weir``: rows of connections, of sessions of a protocol, or of packets, from captures."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "weir"

    def schema(self) -> Any:
        """The columns of the log."""
        options = Options(self.options)
        plan = options.plan()
        if plan.kind == INDEX_LOG:
            return INDEX_SCHEMA
        arrow = _arrow_schema(plan.kind, plan.question, plan.input)
        schema = schema_of(arrow, options.flag("nanoseconds"), plan.errors == "column")
        # The server of Sail (0.7) takes times and lists in a schema of Arrow only.
        return arrow_of(schema) if "pysail" in sys.modules else schema

    def reader(self, schema: Any) -> DataSourceReader:
        """Reads a table."""
        options = Options(self.options)
        if options.get("log") == INDEX_LOG:
            return IndexReader(options)
        return FilteringReader(options, schema) if options.flag("pushdown") else Reader(options, schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Reads a folder that a sensor fills."""
        return StreamReader(Options(self.options), schema)


class Reader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads captures in tasks."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._pushed = ""

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, from the indices of the captures."""
        plan = self._options.plan()
        captures = _find(plan)
        indexed, unread = plan.indices.of(captures)
        _fail(plan, [*unread, *(one.about.error for one in indexed if one.about.error)])
        whole = sum(one.capture.size_bytes for one in indexed)
        count = self._options.number("partitions")
        if count is None:
            count = -(-whole // (self._options.number("partitionBytes") or PARTITION_BYTES))
        if plan.kind in WHOLE:
            count = 1
        return _tasks(plan, indexed, max(1, count), None, unread)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return _rows(self._options.plan(), self._schema, partition, self._pushed)


class FilteringReader(Reader):
    """As `Reader`; conditions of queries become a part of the filter."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Takes conditions, all of which Spark applies once more: filters may pass rows with other values."""
        plan = self._options.plan()
        if plan.kind not in WHOLE:
            self._pushed = filter_of(plan.kind, filters)
        return iter(filters)


class IndexReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Makes the indices of captures, a task for each."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each capture."""
        return [ToIndex((capture.name, capture.size_bytes, capture.stamp)) for capture in _find(self._options.plan())]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """A row for the capture."""
        from datetime import UTC, datetime

        assert isinstance(partition, ToIndex)
        capture = Stored(*partition.capture)
        indexed, unread = self._options.plan().indices.of([capture])
        for error in unread:
            yield (capture.name, capture.size_bytes, None, None, None, None, None, error)
        for one in indexed:
            about = one.about
            first, last = (datetime.fromtimestamp(time / 1e9, UTC) for time in about.times) if about.times else (None, None)
            bytes_ = len(one.contents)
            yield (capture.name, capture.size_bytes, about.packets, about.chunks, first, last, bytes_, about.error)


class StreamReader(DataSourceStreamReader):  # type: ignore[misc, unused-ignore]
    """Reads the captures of a folder in the order in which they are completed."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:
        """Before all captures."""
        return {"stamp": -1, "name": ""}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """The last capture that is complete. ``maxFiles`` bounds the captures of a batch."""
        found = self._complete(self._options.plan())
        most = self._options.number("maxFiles")
        if start is not None:
            found = [one for one in found if _place(one) > (start["stamp"], start["name"])][:most]
        if not found:
            return start if start is not None else self.initialOffset()
        return {"stamp": found[-1].stamp, "name": found[-1].name}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read the captures behind ``start`` up to ``end``, and what earlier captures have of connections that were open."""
        plan = self._options.plan()
        if plan.kind in WHOLE:
            raise WeirError(f"`{plan.kind}` is about all packets: no stream has them; use functions of Spark over another log")
        first, last = ((offset["stamp"], offset["name"]) for offset in (start, end))
        captures = [one for one in _find(plan, may_be_none=True) if _place(one) <= last]
        captures.sort(key=_place)
        new = [one for one in captures if _place(one) > first]
        if not new:
            return []
        cut = self._options.seconds("cut", 3600)
        history = self._history(plan, [one for one in captures if _place(one) <= first], cut)
        indexed, unread = plan.indices.of(new)
        _fail(plan, [*unread, *(one.about.error for one in indexed if one.about.error)])
        whole = sum(one.capture.size_bytes for one in indexed)
        count = self._options.number("partitions") or -(-whole // PARTITION_BYTES)
        return _tasks(plan, [*history, *indexed], max(1, count), (len(history), cut), unread)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return _rows(self._options.plan(), self._schema, partition, "")

    def _complete(self, plan: Plan) -> list[Stored]:
        """The captures that nobody writes any more: all but the latest, and the latest if it has not changed for a while."""
        import time

        found = sorted(_find(plan, may_be_none=True), key=_place)
        settle = self._options.seconds("settle", 60)
        if found and time.time() - found[-1].stamp / 1e9 < settle:
            found.pop()
        return found

    def _history(self, plan: Plan, captures: list[Stored], cut: float) -> list[Indexed]:
        """The captures since the last time at which all connections were closed, of those that were read."""
        history: list[Indexed] = []
        since: float | None = None
        for capture in reversed(captures):
            for one in plan.indices.of([capture])[0]:
                if one.about.times is None:
                    continue
                begin, end = (time / 1e9 for time in one.about.times)
                if since is None:
                    since = begin // cut * cut
                elif end < since:
                    return history
                history.insert(0, one)
        return history


def _place(capture: Stored) -> tuple[int, str]:
    return (capture.stamp, capture.name)


def _find(plan: Plan, may_be_none: bool = False) -> list[Stored]:
    found: dict[str, Stored] = {}
    for path in plan.paths:
        some = plan.store.find(path)
        if not some and not may_be_none:
            raise FileNotFoundError(f"{path}: no such capture")
        found.update((one.name, one) for one in some)
    return list(found.values())


def _fail(plan: Plan, errors: Sequence[str]) -> None:
    if plan.errors == "fail" and errors:
        raise CaptureError(list(errors))


def _tasks(
    plan: Plan, indexed: Sequence[Indexed], count: int, window: tuple[int, float] | None, unread: list[str]
) -> list[InputPartition]:
    captures = [(one.capture.name, one.contents) for one in indexed]
    tasks: list[InputPartition] = [Task(task) for task in _weir.lake_plan(captures, json.dumps(plan.input), count, window)]
    return tasks + [Unread(unread)] if unread else tasks


class Unread(InputPartition):  # type: ignore[misc, unused-ignore]
    """Captures of which nothing can be read."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors


def _rows(plan: Plan, schema: Any, partition: InputPartition, pushed: str) -> Iterator[Any]:
    """The rows of a task as batches, then its errors."""
    converter = Converter(schema)
    errors: list[str] = []
    if isinstance(partition, Unread):
        errors = partition.errors
    elif isinstance(partition, Task):
        question = _named(plan.kind, plan.question, plan.input)
        whole = " and ".join(f"({one})" for one in (question.get("filter"), pushed) if one)
        stated = [("", plan.kind, json.dumps({**question, "filter": whole}))]
        task = (partition.task, plan.store.opener)
        run = _weir.Run([os.devnull], [], json.dumps(plan.input), stated, [], task)
        stream = run.streams(QUEUE_BYTES, "raise")[0]
        try:
            yield from _batches(stream, converter)
        except CaptureError as error:
            _fail(plan, error.errors)
            errors = error.errors
        finally:
            stream.close()
    if errors and converter.has_errors:
        yield converter.errors(errors)


def _batches(stream: _weir.Stream, converter: Converter) -> Iterator[Any]:
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(stream)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except Exception:
            if stream.failure is not None:
                raise stream.failure from None
            raise
        yield converter.batch(batch)


__all__ = ["WeirDataSource"]
