"""Answers about network traffic, as Arrow streams.

>>> import weir
>>> for row in weir.read("examples/first-light.pcap").tls("tls.sni ~ 'shop'"):
...     print(row.server_name, row.version)
shop.example.net TLSv13

`read` names captures, `open` live traffic. Each kind of question is a method: ``flows``, ``packets``, ``sessions``, ``events``,
``streams``, ``records``, ``aggregate``, and each log (``tls``, ``dns``, ``http`` …). A result is lazy, and an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import _weir
from ._capture import Answer, Answers, Capture, open, questions, read
from ._duckdb import register_duckdb
from ._errors import CaptureError, FilterError, Mark, WeirError, WeirWarning
from ._polars import questions_of, scan
from ._result import Result
from ._rows import Row
from ._subscribe import Subscription, run, subscribe

if TYPE_CHECKING:
    import polars

__all__ = [
    "Answer",
    "Answers",
    "Capture",
    "CaptureError",
    "Field",
    "FilterError",
    "Mark",
    "Result",
    "Row",
    "Subscription",
    "WeirError",
    "WeirWarning",
    "explain",
    "fields",
    "kinds",
    "logs",
    "open",
    "questions",
    "read",
    "register_duckdb",
    "run",
    "scan",
    "subscribe",
]


class Field(NamedTuple):
    """A field that filters can use."""

    name: str
    """The name in filters."""
    type: str
    """The type of the values."""
    aliases: list[str]
    """Other names."""
    meaning: str
    """One line of description."""


def fields(words: str = "", *, stack: str | Sequence[str] = ()) -> list[Field]:
    """The fields that filters can use; with ``words``, those that have all of these words in their name or meaning.

    >>> import weir
    >>> [field.name for field in weir.fields("tls server name")][:1]
    ['tls.handshake.extensions_server_name']
    """
    return [Field(*field) for field in _weir.fields([stack] if isinstance(stack, str) else list(stack), words)]


def kinds() -> dict[str, str]:
    """All kinds of questions, each with what its rows are.

    >>> import weir
    >>> weir.kinds()["flows"]
    "Connections, one row each at their end: Zeek's conn.log"
    """
    return {name: about for name, about, _, _ in _weir.kinds()}


def logs() -> dict[str, str]:
    """The logs of sessions, each with what its rows are.

    >>> import weir
    >>> "tls" in weir.logs(), "flows" in weir.logs()
    (True, False)
    """
    return {name: about for name, about, _, is_log in _weir.kinds() if is_log}


def explain(
    filter: str | polars.LazyFrame, *, of: str = "packets", stage: str | None = None, stack: str | Sequence[str] = ()
) -> str:
    """How the engine evaluates a filter of a kind of question: all stages in short, or one of them (``parse``, ``trie``, ``ir``,
    ``opt``, ``kernel``, ``device``, ``fast-path``, ``code``). Or, for a lazy frame of Polars, the questions of its `scan` calls: their
    filters with what the frame's conditions have added, their columns, and how the engine evaluates them.

    >>> import polars as pl, weir
    >>> "tcp" in weir.explain("tcp.port == 443", stage="trie")
    True
    >>> frame = weir.scan("examples/first-light.pcap", "http").filter(pl.col("method") == "GET").select("host")
    >>> print(weir.explain(frame).splitlines()[0])
    http(filter='(http.method == "GET")', columns=['method', 'host'])
    """
    if isinstance(filter, str):
        return Capture(["/dev/null"], [], False, "raise", {"stack": stack}).ask(of, filter=filter).explain(stage)
    return "\n".join(f"{question.stated}\n{question.explain(stage)}" for question in questions_of(filter))
