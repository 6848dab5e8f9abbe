"""Callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._capture import Capture, questions
from ._rows import Row

T = TypeVar("T")


class Subscription(Generic[T]):
    """A function that receives rows. Calling it calls the function."""

    def __init__(self, function: Callable[[Row], T], kind: str, options: dict[str, Any]) -> None:
        self.function = function
        """The function."""
        self.kind = kind
        """The kind of question."""
        self.options = options
        """The options of the question."""

    def __call__(self, row: Row) -> T:
        return self.function(row)


def subscribe(filter: str = "", *, to: str | None = None, **options: Any) -> Callable[[Callable[[Row], T]], Subscription[T]]:
    """Makes a function a callback for the rows of a question. ``to`` is the kind of question; without it, the kind is the first word
    of the filter if that names a log (``tls.sni ~ …`` asks for ``tls``), and ``flows`` otherwise.

    >>> import weir
    >>> @weir.subscribe("tls.sni ~ 'shop'")
    ... def found(row):
    ...     print(row.server_name)
    >>> weir.run(weir.read("examples/first-light.pcap"), found)
    shop.example.net
    """
    kind = to or _kind_of(filter)

    def subscribed(function: Callable[[Row], T]) -> Subscription[T]:
        return Subscription(function, kind, {"filter": filter, **options})

    return subscribed


def _kind_of(filter: str) -> str:
    from . import logs

    word = filter.split(".", 1)[0].split(" ", 1)[0].strip()
    return word if word in logs() else "flows"


def run(capture: Capture, *subscriptions: Subscription[Any]) -> None:
    """Calls the functions of subscriptions with their rows, in one pass over a capture, on this thread. Rows of one subscription come in
    order. An exception of a function ends the run. Live captures run until they are interrupted.

    >>> import weir
    >>> flows = weir.subscribe("udp", to="flows", limit=1)(lambda row: print(row.proto))
    >>> weir.run(weir.read("examples/first-light.pcap"), flows)
    udp
    """
    asked = {f"{number}": one for number, one in enumerate(subscriptions)}
    results = {name: capture.ask(one.kind, **one.options) for name, one in asked.items()}
    with questions(results) as answers:
        for name, row in answers.rows():
            asked[name].function(row)
