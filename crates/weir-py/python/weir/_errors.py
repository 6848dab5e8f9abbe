"""Exceptions and warnings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any, NamedTuple

LOGGER = logging.getLogger("weir")
"""Receives how runs proceed, at the level of information."""
FOLDER = os.path.dirname(__file__)


class WeirError(Exception):
    """A question cannot be answered; the text says why, and what to do."""


class Mark(NamedTuple):
    """A mistake at a place of a text."""

    code: str
    """The code, for example ``W0107``; ``docs/diagnostics.md`` lists all codes."""
    message: str
    """What is wrong, in one line."""
    span: tuple[int, int] | None
    """The first character of the place in ``text``, and the one behind the last."""
    text: str
    """The filter, or the ``.weir`` text, that has the mistake."""
    hint: str | None
    """What to write instead."""


class FilterError(WeirError):
    """A mistake in a filter, an aggregate or a ``.weir`` text.

    >>> import weir
    >>> try:
    ...     weir.read("examples/first-light.pcap").tls("tls.sni == 443")
    ... except weir.FilterError as error:
    ...     print(error.message, error.span)
    `tls.sni` is text, `443` is a number (0, 7)
    """

    def __init__(self, text: str, marks: list[Mark]) -> None:
        super().__init__(text)
        self.text = text
        """The whole message, with the marked places."""
        self.marks = marks
        """All mistakes, in the order in which they were found."""

    @property
    def message(self) -> str:
        """The first mistake, in one line."""
        return self.marks[0].message

    @property
    def span(self) -> tuple[int, int] | None:
        """The place of the first mistake in its text: the first character, and the one behind the last."""
        return self.marks[0].span

    @property
    def hint(self) -> str | None:
        """What to write instead of the first mistake."""
        return self.marks[0].hint


class CaptureError(WeirError):
    """A capture is damaged or cannot be read. The rows of everything readable came before this error.

    >>> import io, weir
    >>> cut = io.BytesIO(open("examples/first-light.pcap", "rb").read()[:-10])
    >>> try:
    ...     frame = weir.read(cut).flows().to_polars()
    ... except weir.CaptureError as error:
    ...     frame = error.rows
    >>> frame.height
    108
    """

    def __init__(self, errors: list[str], rows: Any = None) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors
        """What could not be read, one text for each place."""
        self.rows = rows
        """The rows of everything readable, in the form that was asked for, if the error is of ``to_arrow``, ``to_pandas`` or
        ``to_polars``; None otherwise."""


class WeirWarning(UserWarning):
    """A question is valid, but probably not meant so; or a run could not keep everything, because of its bounds."""


def _tell(text: str, is_warning: bool) -> None:
    """Reports a message of a run, at the place outside of this package that reads its rows."""
    if not is_warning:
        LOGGER.info("%s", text)
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == FOLDER:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, WeirWarning, stacklevel=level)


def _mistake(text: str, marks: list[tuple[str, str, tuple[int, int] | None, str, str | None]]) -> WeirError:
    return FilterError(text, [Mark(*mark) for mark in marks]) if marks else WeirError(text)


def _capture_error(errors: list[str]) -> CaptureError:
    return CaptureError(errors)
