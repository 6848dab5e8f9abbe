"""Writes the types of the kinds of questions: ``python -m weir._stubs > crates/weir-py/python/weir/_kinds.pyi``.

>>> stub().startswith("# Written by `python -m weir._stubs`")
True
"""

from __future__ import annotations

from . import _weir
from ._kinds import parameters

TEXTS = "str | Sequence[str] | None"
TYPES = {
    "limit": "int | None",
    "columns": TEXTS,
    "names": TEXTS,
    "patterns": TEXTS,
    "arguments": "Sequence[str] | None",
    "pattern_files": "Sequence[str] | None",
    "cutoff": TEXTS,
    "priority": TEXTS,
    "events": TEXTS,
    "ignore_case": "bool | None",
    "fixed_strings": "bool | None",
    "decode": "bool | None",
    "rules": TEXTS,
    "complete": "bool | None",
    "ndpi": "bool | None",
    "all_rows": "bool | None",
    "context": "int | None",
    "max_count": "int | None",
    "packets": "int | None",
    "first": "int | None",
    "chunk": "int | str | None",
    "overlap": "int | str | None",
    "extract_max": "int | str | None",
    "flush": "float | None",
    "age": "float | None",
    "idle": "float | None",
}
"""Types of options that are not texts."""


def stub() -> str:
    """The text of the stub."""
    lines = [
        "# Written by `python -m weir._stubs`; a test compares. One method for each kind of question.",
        "from collections.abc import Sequence",
        "from typing import Any",
        "",
        "from ._result import Result",
        "",
        "FIRST: dict[str, tuple[str, ...]]",
        "",
        "class Kinds:",
        "    def ask(self, kind: str, /, **options: Any) -> Result: ...",
    ]
    for kind, _, options, _ in _weir.kinds():
        first, named = parameters(kind, options)
        typed = [f"{name}: {TYPES.get(name, 'str | None')} = None" for name in first]
        typed += ["*"] + [f"{name}: {TYPES.get(name, 'str | None')} = None" for name in named]
        lines.append(f"    def {kind}(self, {', '.join(typed)}) -> Result: ...")
    lines += ["", "def parameters(kind: str, options: Sequence[str]) -> tuple[list[str], list[str]]: ..."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
