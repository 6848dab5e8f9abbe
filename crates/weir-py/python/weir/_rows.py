"""Rows as objects of Python."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def time_of(ns: int) -> datetime.datetime:
    """The time of so many nanoseconds since 1970, to the microsecond."""
    return EPOCH + datetime.timedelta(microseconds=ns // 1000)


class Columns:
    """The columns of rows: their names, types and meanings."""

    __slots__ = ("meanings", "names", "places", "times", "types")

    def __init__(self, columns: list[tuple[str, str, str]]) -> None:
        self.names = tuple(name for name, _, _ in columns)
        self.types = tuple(value_type for _, value_type, _ in columns)
        self.meanings = tuple(meaning for _, _, meaning in columns)
        self.times = frozenset(place for place, one in enumerate(self.types) if one == "time")
        self.places = {name.replace(".", "_"): place for place, name in enumerate(self.names)}
        self.places.update({name: place for place, name in enumerate(self.names)})


class Row:
    """A row: values by name of their column, ``row["id.orig_h"]`` or ``row.id_orig_h``, or by position.

    Times are `datetime.datetime` in UTC, to the microsecond; `raw` has all digits.

    >>> import weir
    >>> row = next(iter(weir.read("examples/first-light.pcap").tls("tls.sni ~ 'shop'")))
    >>> row.server_name, row["server_name"] == row.server_name, row.ts.tzinfo
    ('shop.example.net', True, datetime.timezone.utc)
    """

    __slots__ = ("_columns", "raw")

    def __init__(self, columns: Columns, raw: tuple[Any, ...]) -> None:
        self._columns = columns
        self.raw = raw
        """The values; times are nanoseconds since 1970."""

    def _at(self, place: int) -> Any:
        value = self.raw[place]
        return time_of(value) if value is not None and place in self._columns.times else value

    def __getitem__(self, key: str | int) -> Any:
        return self._at(self._columns.places[key] if isinstance(key, str) else range(len(self.raw))[key])

    def __getattr__(self, name: str) -> Any:
        place = self._columns.places.get(name)
        if place is None:
            raise AttributeError(f"no column `{name}`: there are {', '.join(self._columns.names)}")
        return self._at(place)

    def __iter__(self) -> Iterator[Any]:
        return (self._at(place) for place in range(len(self.raw)))

    def __len__(self) -> int:
        return len(self.raw)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self._columns.names == other._columns.names and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *(name.replace(".", "_") for name in self._columns.names)]

    def keys(self) -> tuple[str, ...]:
        """The names of the columns: ``dict(row)`` works."""
        return self._columns.names

    def __repr__(self) -> str:
        given = zip(self._columns.names, self, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"
