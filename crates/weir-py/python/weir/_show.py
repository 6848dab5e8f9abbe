"""The first rows of a result as a table of HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from ._rows import Columns, time_of

ROWS_MAX = 10
"""Rows that are shown."""
TEXT_MAX = 60
"""Characters of a value that are shown."""


def _text(value: Any, value_type: str) -> str:
    if value is None:
        return ""
    if value_type == "time":
        return time_of(value).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, float):
        return f"{value:.6g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _printable(text: str) -> str:
    # Texts come from the network: no character may act on the page.
    return html.escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def table(columns: Columns, rows: Iterable[tuple[Any, ...]], more: bool) -> str:
    """A table; columns without values in these rows are left out."""
    rows = list(rows)
    used = [at for at in range(len(columns.names)) if not rows or any(row[at] is not None for row in rows)]
    head = "".join(
        f'<th title="{_printable(columns.meanings[at])}">{_printable(columns.names[at])}</th>' for at in used
    )
    cells = (
        "".join(f"<td>{_printable(_text(row[at], columns.types[at]))}</td>" for at in used) for row in rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    note = f"<p>the first {len(rows)} rows</p>" if more else f"<p>{len(rows)} rows</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
