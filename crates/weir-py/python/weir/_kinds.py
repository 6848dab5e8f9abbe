"""The kinds of questions as methods, made of what the engine knows. Their types are in ``_kinds.pyi``, which ``_stubs.py`` writes."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Sequence
from typing import Any

from . import _weir

FIRST = {"aggregate": ("aggregate",), "match": ("patterns",)}
"""Options that are positional before the filter."""


class Kinds:
    """A method for each kind of question."""

    def ask(self, kind: str, /, **options: Any) -> Any:
        """The rows of a question by the name of its kind."""
        raise NotImplementedError


def parameters(kind: str, options: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of a kind that may be positional, and those that have names. Words of Python end in an underscore: ``as_``."""
    first = [*FIRST.get(kind, ()), "filter"]
    named = (option for option in options if option not in first)
    return first, [f"{option}_" if keyword.iskeyword(option) else option for option in named]


def _method(kind: str, about: str, options: list[str]) -> Callable[..., Any]:
    first, named = parameters(kind, options)

    def method(self: Kinds, *values: Any, **given: Any) -> Any:
        if len(values) > len(first):
            raise TypeError(f"{kind}() takes at most {len(first)} positional arguments: {', '.join(first)}")
        return self.ask(kind, **dict(zip(first, values, strict=False)), **given)

    method.__name__ = kind
    method.__qualname__ = f"Kinds.{kind}"
    method.__doc__ = f"{about}\n\nOptions: {', '.join([*first, *named])}."
    of = inspect.Parameter
    listed = [of("self", of.POSITIONAL_OR_KEYWORD)]
    listed += [of(name, of.POSITIONAL_OR_KEYWORD, default=None) for name in first]
    listed += [of(name, of.KEYWORD_ONLY, default=None) for name in named]
    method.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return method


for _kind, _about, _options, _ in _weir.kinds():
    setattr(Kinds, _kind, _method(_kind, _about, _options))
