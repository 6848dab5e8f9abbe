"""Rows of all kinds are those of the command, over captures of others where they are. Each capture is read once by the command and once by
the package, with all kinds of questions in one pass."""

import json
import subprocess
import warnings

import pyarrow
import pyarrow.ipc
import pytest
from conftest import EXAMPLES, TRACES, plain, traces

import weir

OPTIONS = {
    "aggregate": {"aggregate": "count(), sum(frame.len), median(frame.len) by ip.src every 10s"},
    "records": {"key": "flow", "features": "iat,len,dir"},
    "streams": {"digest": "sha256"},
    "match": {"patterns": ["[A-Z]{4,}", "(?i)user"]},
}
"""Options of the kinds that need some."""
LEFT_OUT = ("overview", "follow", "stats", "script")
"""Kinds that a pass of several questions cannot have, and scripts, whose rows are those of their modules."""
KINDS = [kind for kind in weir.kinds() if kind not in LEFT_OUT]


def questions_file(folder) -> str:
    """A file with a question of each kind, whose rows go into a file each."""
    lines = []
    for kind in KINDS:
        options = {"name": kind, "ask": kind, "format": "arrow", "output": str(folder / kind), **OPTIONS.get(kind, {})}
        lines += ["[[question]]", *(f"{name} = {json.dumps(value)}" for name, value in options.items())]
    path = folder / "questions.toml"
    path.write_text("\n".join(lines))
    return str(path)


def of_command(command: str, path: str, folder) -> tuple[dict[str, pyarrow.Table], bool]:
    """The rows of each kind, and whether the capture is damaged."""
    ran = subprocess.run([command, "-q", "run", questions_file(folder), "-r", path], capture_output=True, check=False)
    assert ran.returncode in (0, 2), ran.stderr.decode()
    tables = {}
    for kind in KINDS:
        file = folder / kind
        tables[kind] = plain(pyarrow.ipc.open_stream(file.read_bytes()).read_all()) if file.exists() else None
        file.unlink(missing_ok=True)
    return tables, ran.returncode == 2


def of_package(path: str) -> tuple[dict[str, pyarrow.Table], bool]:
    """The same of the package."""
    capture = weir.read(path, damaged="warn")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with weir.questions({kind: capture.ask(kind, **OPTIONS.get(kind, {})) for kind in KINDS}) as answers:
            tables = {kind: pyarrow.table(answer) for kind, answer in answers.items()}
    name = path.rsplit("/", 1)[1]
    # A link type without a protocol is worth a note, and no damage.
    texts = [str(warning.message) for warning in heard if "does not read the link type" not in str(warning.message)]
    return tables, any(name in text for text in texts)


def test_rows_of_all_kinds_are_those_of_the_command(command, tmp_path, request):
    paths, note = traces(request.config.getoption("--all-traces"))
    seen: dict[str, int] = dict.fromkeys(KINDS, 0)
    for path in EXAMPLES + paths:
        expected, is_damaged = of_command(command, path, tmp_path)
        found, has_warned = of_package(path)
        assert has_warned == is_damaged, path
        for kind in KINDS:
            wanted = expected[kind]
            if wanted is None:
                # The command makes a file at the first row.
                assert found[kind].num_rows == 0, f"{kind} of {path}"
                continue
            assert found[kind].equals(wanted), f"{kind} of {path}"
            seen[kind] += wanted.num_rows
    print(f"{len(EXAMPLES) + len(paths)} captures, {sum(seen.values())} rows; without rows: {[k for k in KINDS if not seen[k]]}")
    assert sum(1 for count in seen.values() if count) > 20
    if note:
        pytest.skip(f"compared the examples only: {note}")

