"""The rows of a question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _weir
from ._errors import CaptureError
from ._rows import Columns, Row
from ._show import ROWS_MAX, table

if TYPE_CHECKING:
    from ._capture import Capture

QUEUE_BYTES = 16 << 20
"""Bytes of rows between the engine and the reader of a single question."""


class Result:
    """The rows of a question. Nothing is read before the rows are; each reader reads the captures anew.

    Readers of Arrow take a result as it is: ``pyarrow.table(result)``, ``polars.DataFrame(result)``, ``duckdb.sql("from result")``.
    """

    def __init__(self, capture: Capture, kind: str, options: Mapping[str, Any]) -> None:
        self._capture = capture
        self._kind = kind
        self._options = {key: value for key, value in options.items() if value is not None}
        self.columns = Columns(self._state(stated=True).columns[0])
        """The names, types and meanings of the columns."""

    def _state(self, stated: bool = False) -> _weir.Run:
        return self._capture._run([("", self._kind, json.dumps(self._options))], stated)

    def _stream(self, damage: str | None = None) -> _weir.Stream:
        return self._state().streams(QUEUE_BYTES, damage or self._capture._damaged)[0]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for other packages."""
        return self._stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of the rows, for other packages."""
        return self._state(stated=True).streams(0, "raise")[0].__arrow_c_schema__()

    def _tuples(self) -> Iterator[list[tuple[Any, ...]]]:
        stream = self._stream()
        try:
            with self._capture._watched(stream):
                while (rows := stream.rows()) is not None:
                    yield rows
            self._capture._finish()
        finally:
            stream.close()

    def __iter__(self) -> Iterator[Row]:
        """The rows, one after the other."""
        columns = self.columns
        for rows in self._tuples():
            for row in rows:
                yield Row(columns, row)

    def batches(self) -> Iterator[Any]:
        """The rows as ``pyarrow.RecordBatch`` objects, as they come.

        >>> import weir
        >>> sum(batch.num_rows for batch in weir.read("examples/first-light.pcap").flows().batches())
        108
        """
        yield from _record_batches(self._stream(), self._capture)

    def head(self, rows: int = 10) -> list[Row]:
        """The first rows.

        >>> import weir
        >>> len(weir.read("examples/first-light.pcap").flows().head(3))
        3
        """
        found: list[Row] = []
        for row in self:
            found.append(row)
            if len(found) >= rows:
                break
        return found

    def _whole(self, reader: Callable[[_weir.Stream], Any]) -> Any:
        """All rows, as this reader of Arrow makes them. If captures are damaged, the exception has the rows."""
        warns = self._capture._damaged == "warn"
        stream = self._stream("warn" if warns else "keep")
        rows = None
        try:
            with self._capture._watched(stream):
                rows = _read(stream, lambda: reader(stream))
                if stream.failure is not None:
                    raise stream.failure
            self._capture._finish()
        except CaptureError as error:
            error.rows = rows
            raise
        return rows

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` with all rows.

        >>> import weir
        >>> weir.read("examples/first-light.pcap").flows().to_arrow().num_rows
        108
        """
        import pyarrow

        return self._whole(pyarrow.table)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with all rows.

        >>> import weir
        >>> len(weir.read("examples/first-light.pcap").flows().to_pandas())
        108
        """
        import pyarrow

        return self._whole(lambda stream: pyarrow.table(stream).to_pandas())

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with all rows.

        >>> import weir
        >>> weir.read("examples/first-light.pcap").flows().to_polars().height
        108
        """
        import polars

        return self._whole(polars.DataFrame)

    def to_parquet(self, path: str, **options: Any) -> int:
        """Writes all rows to a Parquet file, batch by batch; returns their number. ``options`` are those of
        ``pyarrow.parquet.ParquetWriter``. If the captures are damaged, the file has the rows of everything readable.

        >>> import tempfile, weir
        >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        ...     weir.read("examples/first-light.pcap").flows().to_parquet(file.name)
        108
        """
        import pyarrow.parquet

        options.setdefault("compression", "zstd")
        count = 0
        schema = pyarrow.schema(self)
        with pyarrow.parquet.ParquetWriter(path, schema, **options) as writer:
            for batch in self.batches():
                writer.write_batch(batch)
                count += batch.num_rows
        return count

    def explain(self, stage: str | None = None) -> str:
        """How the engine evaluates the question: all stages in short, or one of them.

        >>> import weir
        >>> "tls.sni" in weir.read("examples/first-light.pcap").tls("tls.sni ~ 'shop'").explain()
        True
        """
        return self._state(stated=True).explain(stage)

    @property
    def stated(self) -> str:
        """The question, as it was stated.

        >>> import weir
        >>> weir.read("examples/first-light.pcap").tls(limit=3).stated
        'tls(limit=3)'
        """
        return f"{self._kind}({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"

    def __repr__(self) -> str:
        return f"<weir.Result: {self.stated}, {len(self.columns.names)} columns>"

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = []
        for some in self._tuples():
            rows.extend(some)
            if len(rows) > ROWS_MAX:
                break
        return table(self.columns, rows[:ROWS_MAX], len(rows) > ROWS_MAX)


def _read(stream: _weir.Stream, reader: Callable[[], Any]) -> Any:
    """What a reader of Arrow returns. Its error is replaced by ours, if that was the cause."""
    try:
        return reader()
    except Exception:
        if stream.failure is not None:
            raise stream.failure from None
        raise


def _record_batches(stream: _weir.Stream, capture: Capture) -> Iterator[Any]:
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(stream)
    try:
        with capture._watched(stream):
            while True:
                try:
                    batch = _read(stream, reader.read_next_batch)
                except StopIteration:
                    break
                yield batch
        capture._finish()
    finally:
        stream.close()
