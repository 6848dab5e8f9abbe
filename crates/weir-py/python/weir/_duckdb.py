"""Results in DuckDB."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

CALL = re.compile(r"\bweir_(\w+)\s*\(\s*('(?:[^']|'')*'(?:\s*,\s*(?:\w+\s*:=\s*)?'(?:[^']|'')*')*)\s*\)", re.IGNORECASE)
"""``weir_tls('x.pcap', 'filter')``"""
LISTS = ("columns", "names", "events")
"""Options with several values, separated by commas."""
VALUE = re.compile(r"(?:(\w+)\s*:=\s*)?'((?:[^']|'')*)'")


class Connection:
    """A connection of DuckDB whose queries may call ``weir_LOG('FILE' [, 'FILTER'] [, OPTION := 'VALUE'])`` as a table."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        """DuckDB's own connection."""

    def sql(self, query: str) -> Any:
        """The relation of a query, as ``duckdb.DuckDBPyConnection.sql``. The captures are read each time that rows are fetched."""
        tables: dict[str, Any] = {}
        for name, result in self._calls(query):
            tables[name] = result
        for name, result in tables.items():
            self.connection.register(name, result)
        return self.connection.sql(self._replaced(query))

    execute = sql

    def _calls(self, query: str) -> list[tuple[str, Any]]:
        return [(_table(number), _result(call)) for number, call in enumerate(CALL.finditer(query))]

    @staticmethod
    def _replaced(query: str) -> str:
        numbers = iter(range(query.count("'") + 1))
        return CALL.sub(lambda _: _table(next(numbers)), query)


def _table(number: int) -> str:
    return f"__weir_{number}"


def _result(call: re.Match[str]) -> Any:
    from . import read

    files: list[str] = []
    options: dict[str, Any] = {}
    for name, value in VALUE.findall(call[2]):
        text = value.replace("''", "'")
        if name:
            options[name] = text.split(",") if name in LISTS else text
        elif not files:
            files.append(text)
        else:
            options["filter"] = text
    return read(*files).ask(call[1].lower(), **options)


def register_duckdb(connection: duckdb.DuckDBPyConnection) -> Connection:
    """A connection whose queries may use captures as tables. DuckDB's Python API has no functions that return tables, so `Connection.sql`
    replaces the calls in the text by registered Arrow streams before DuckDB sees the query.

    >>> import duckdb, weir
    >>> con = weir.register_duckdb(duckdb.connect())
    >>> con.sql("select count(*) from weir_tls('examples/first-light.pcap', 'tls.sni ~ \\"shop\\"')").fetchall()
    [(1,)]
    """
    return Connection(connection)
