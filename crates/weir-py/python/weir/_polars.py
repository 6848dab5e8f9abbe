"""Results in Polars: a lazy frame whose columns and conditions reach the engine."""

from __future__ import annotations

import io
import itertools
import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _weir
from ._capture import Capture, read
from ._result import Result, _record_batches
from ._sources import Source

if TYPE_CHECKING:
    import polars as pl

OPERATORS = {"Eq": "==", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
"""Operators that mean the same in filters."""
MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def scan(
    files: Source | Capture | Sequence[Source], kind: str = "flows", filter: str = "", **options: Any
) -> pl.LazyFrame:
    """A lazy frame of Polars over the rows of a question. Columns that are not used are not computed. Conditions that the language of
    filters can express (comparisons of connections and of fields of sessions with texts and whole numbers, and ``&`` and ``|`` of these)
    become a part of the filter; Polars applies the others. `weir.explain` shows the question of a frame.

    >>> import polars as pl, weir
    >>> frame = weir.scan("examples/first-light.pcap", "tls")
    >>> frame.filter(pl.col("server_name") == "shop.example.net").select("version").collect().to_series().to_list()
    ['TLSv13']
    """
    import polars
    from polars.io.plugins import register_io_source

    if isinstance(files, Capture):
        capture = files
    else:
        capture = read(*files) if isinstance(files, Sequence) and not isinstance(files, str) else read(files)
    rows = Scan(capture, kind, filter, options)
    schema = polars.Schema(rows.question([]))
    return register_io_source(rows, schema=schema, explain_name=f"weir {kind}", explain_detail=filter or None)


class Scan:
    """The rows of a question, for Polars."""

    def __init__(self, capture: Capture, kind: str, filter: str, options: dict[str, Any]) -> None:
        self.capture, self.kind, self.filter = capture, kind, filter
        self.limit: int | None = options.get("limit")
        self.options = {name: value for name, value in options.items() if name != "limit"}
        self._number = next(NUMBERS)
        SCANS[self._number] = self

    def question(self, columns: list[str], condition: str = "", limit: int | None = None) -> Result:
        """The question with another condition in the language of filters. No columns: those of the scan."""
        whole = f"({self.filter}) and {condition}" if self.filter and condition else self.filter or condition
        own = {"columns": columns or self.options.get("columns"), "limit": limit if limit is not None else self.limit}
        return self.capture.ask(self.kind, **{**self.options, "filter": whole, **own})

    def _asked(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None
    ) -> Result:
        # Polars and `limit` count rows before the condition.
        limit = min((n for n in (self.limit, n_rows) if n is not None), default=None)
        condition = pushed(self.kind, predicate) if limit is None else ""
        # Polars applies the whole condition once more: the columns of the condition are needed, too.
        used = predicate.meta.root_names() if predicate is not None else []
        columns = [] if with_columns is None else list(dict.fromkeys([*with_columns, *used]))
        return self.question(columns, condition, limit)

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        import polars

        asked = self._asked(with_columns, predicate, n_rows)
        for batch in _record_batches(asked._stream(), self.capture):
            frame = polars.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            yield frame

    def __reduce__(self) -> tuple[Any, ...]:
        # Polars copies its plans so. Captures may be open files: a copy in another process has none.
        return (_again, (self._number,))


NUMBERS = itertools.count()
SCANS: weakref.WeakValueDictionary[int, Scan] = weakref.WeakValueDictionary()
EXPLAINING = threading.local()
"""``questions``: a list, while this thread copies the plan of a frame that is explained."""


class Explained:
    """A scan that has no rows, and keeps the question of its reader."""

    def __init__(self, scan: Scan, questions: list[Result]) -> None:
        self.scan, self.questions = scan, questions

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        import polars

        self.questions.append(self.scan._asked(with_columns, predicate, n_rows))
        empty = polars.DataFrame(schema=polars.Schema(self.scan.question([])))
        yield empty if with_columns is None else empty.select(with_columns)


def _again(number: int) -> Scan | Explained:
    scan = SCANS.get(number)
    if scan is None:
        raise ValueError("a frame of `weir.scan` cannot be sent to another process")
    questions = getattr(EXPLAINING, "questions", None)
    return scan if questions is None else Explained(scan, questions)


def questions_of(frame: pl.LazyFrame) -> list[Result]:
    """The questions of the scans of a frame, as its optimised plan asks them. The plan runs with scans that have no rows; other inputs of
    the frame are read."""
    import polars

    questions: list[Result] = []
    EXPLAINING.questions = questions
    try:
        copy = polars.LazyFrame.deserialize(io.BytesIO(frame.serialize()))
    finally:
        del EXPLAINING.questions
    copy.collect()
    return questions


def pushed(kind: str, predicate: pl.Expr | None) -> str:
    """The part of a condition of Polars that becomes part of the filter; empty: none.

    >>> import polars as pl
    >>> from weir._polars import pushed
    >>> pushed("http", (pl.col("method") == "GET") & (pl.col("host").str.len_chars() > 3))
    '(http.method == "GET")'
    """
    if predicate is None:
        return ""
    fields = {column: (own, carriers) for column, own, carriers in _weir.filter_fields(kind)}
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # An expression without such a form: Polars alone applies the condition.
        return ""
    return _filter(tree, fields) or ""


def _filter(tree: Any, fields: dict[str, tuple[list[str], list[str]]]) -> str | None:
    """A filter that is true wherever the condition is; `None`: the language cannot express one."""
    node = tree.get("BinaryExpr") if isinstance(tree, dict) else None
    if node is None:
        return None
    operator = node["op"]
    if operator in ("And", "LogicalAnd"):
        both = [part for part in (_filter(node["left"], fields), _filter(node["right"], fields)) if part]
        return " and ".join(both) or None
    if operator in ("Or", "LogicalOr"):
        left, right = _filter(node["left"], fields), _filter(node["right"], fields)
        return f"({left} or {right})" if left and right else None
    sign = OPERATORS.get(operator)
    if sign is None:
        return None
    column, literal = _column(node["left"]), _literal(node["right"])
    if column is None or literal is None:
        column, literal, sign = _column(node["right"]), _literal(node["left"]), MIRRORED[sign]
    if column is None or literal is None or column not in fields:
        return None
    if literal.startswith('"') and sign != "==":
        return None
    # The rows of a log may come from several protocols. Rows that others carry pass: Polars applies the condition once more.
    own, carriers = fields[column]
    text = "(" + " or ".join([f"{field} {sign} {literal}" for field in own] + carriers) + ")"
    return text if _is_valid(text) else None


def _column(tree: Any) -> str | None:
    name = tree.get("Column") if isinstance(tree, dict) else None
    return name if isinstance(name, str) else None


def _literal(tree: Any) -> str | None:
    """A constant in the language of filters."""
    scalar = tree.get("Literal") if isinstance(tree, dict) else None
    while isinstance(scalar, dict) and len(scalar) == 1:
        ((kind, scalar),) = scalar.items()
        if kind == "String" and isinstance(scalar, str):
            plain = scalar.isascii() and scalar.isprintable() and not set(scalar) & {'"', "\\"}
            return f'"{scalar}"' if plain else None
        if kind in ("Int", "UInt64", "UInt32", "Int64", "Int32") and isinstance(scalar, int) and scalar >= 0:
            return str(scalar)
    return None


def _is_valid(text: str) -> bool:
    from ._errors import WeirError

    try:
        Capture(["/dev/null"], [], False, "raise", {}).ask("flows", filter=text)
    except WeirError:
        return False
    return True
