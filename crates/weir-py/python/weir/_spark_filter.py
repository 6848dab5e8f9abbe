"""Conditions of Spark as parts of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _weir
from ._polars import _is_valid
from ._spark_schema import spark_name

SIGNS = {"EqualTo": "==", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<="}
"""Conditions that mean the same in filters."""


def filter_of(kind: str, conditions: Sequence[Any]) -> str:
    """A filter that is true wherever all conditions are; empty if no condition can be expressed. Spark applies them all once more."""
    fields = {spark_name(column): (own, carriers) for column, own, carriers in _weir.filter_fields(kind)}
    parts = (_part(condition, fields) for condition in conditions)
    return " and ".join(part for part in parts if part)


def _part(condition: Any, fields: dict[str, tuple[list[str], list[str]]]) -> str | None:
    name = type(condition).__name__
    column = ".".join(getattr(condition, "attribute", ()))
    if column not in fields:
        return None
    if name == "In":
        parts = [_comparison(fields[column], "==", value) for value in condition.value]
        return f"({' or '.join(part for part in parts if part)})" if parts and all(parts) else None
    sign = SIGNS.get(name)
    return _comparison(fields[column], sign, condition.value) if sign else None


def _comparison(field: tuple[list[str], list[str]], sign: str, value: Any) -> str | None:
    """A comparison of all fields with the values of a column. Rows that other protocols carry pass."""
    own, carriers = field
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and value >= 0:
        literal = str(value)
    elif isinstance(value, str) and sign == "==" and value.isascii() and value.isprintable() and not set(value) & {'"', "\\"}:
        literal = f'"{value}"'
    else:
        return None
    text = "(" + " or ".join([f"{one} {sign} {literal}" for one in own] + carriers) + ")"
    return text if own and _is_valid(text) else None
