"""Where the captures and the command are."""

import os
import pathlib
import shutil

import pyarrow
import pytest

TOP = pathlib.Path(__file__).parents[3]
EXAMPLES = sorted(str(path) for path in (TOP / "examples").glob("*.pcap"))
TRACES = TOP.parent / "shared" / "traces"
"""Captures of others, if they are there."""
SAMPLE = 12
"""Captures of others that are read unless all are asked for."""
SAMPLE_BYTES = 1 << 18
"""Size of these at most."""


def pytest_addoption(parser):
    parser.addoption("--all-traces", action="store_true", help=f"compare rows over all captures of {TRACES}, not over a sample")
    parser.addoption("--plots", metavar="FOLDER", help="keep the plots of the notebooks in this folder")


def traces(all_of_them: bool = False) -> tuple[list[str], str]:
    """Captures of others, all or a sample; and why there are none."""
    is_capture = lambda path: path.is_file() and any(end in path.name for end in (".pcap", ".cap"))  # noqa: E731
    found = sorted(path for path in TRACES.rglob("*") if is_capture(path))
    if not found:
        return [], f"{TRACES} is missing"
    if not all_of_them:
        found = [path for path in found if path.stat().st_size < SAMPLE_BYTES]
        found = found[:: max(1, len(found) // SAMPLE)]
    return [str(path) for path in found], ""


def plain(table: pyarrow.Table) -> pyarrow.Table:
    """Rows that the command has written, with texts in place of dictionaries."""
    fields = [
        pyarrow.field(field.name, field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))


@pytest.fixture(scope="session")
def command() -> str:
    weir = os.environ.get("WEIR", "")
    found = weir if os.path.exists(weir) else shutil.which("weir")
    if found is None:
        pytest.skip("the command `weir` is missing: cargo build")
    return found


@pytest.fixture
def first_light() -> str:
    return str(TOP / "examples" / "first-light.pcap")
