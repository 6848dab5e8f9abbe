"""Rows are those of the command."""

import io
import json
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.ipc
import pytest
from conftest import EXAMPLES, plain

import weir

RULES = Path(EXAMPLES[0]).parent / "rules"
KINDS = {
    "flows": {},
    "tls": {},
    "http": {},
    "dns": {},
    "files": {},
    "x509": {},
    "packets": {},
    "sessions": {},
    "events": {},
    "streams": {"digest": "sha256"},
    "records": {"key": "flow", "features": "iat,len"},
    "aggregate": {"aggregate": "count(), sum(frame.len) by ip.src every 1s"},
    "rules": {"rules": [str(RULES)]},
}
OPTIONS = {
    "streams": ["--digest", "sha256"],
    "records": ["--key", "flow", "--features", "iat,len"],
    "rules": ["-S", str(RULES)],
}


def of_command(command: str, kind: str, path: str) -> pyarrow.Table:
    """The rows that the command writes as Arrow."""
    words = [KINDS[kind]["aggregate"]] if kind == "aggregate" else []
    words = [command, "-q", kind, *words, *OPTIONS.get(kind, []), "-r", path, "--format", "arrow"]
    written = subprocess.run(words, capture_output=True, check=True)
    return plain(pyarrow.ipc.open_stream(io.BytesIO(written.stdout)).read_all())


@pytest.mark.parametrize("kind", KINDS)
def test_rows_equal_those_of_the_command(command, kind):
    rows = 0
    for path in EXAMPLES:
        expected, found = of_command(command, kind, path), weir.read(path).ask(kind, **KINDS[kind]).to_arrow()
        assert found.schema.names == expected.schema.names, path
        assert found.equals(expected), f"{kind} of {path}"
        rows += found.num_rows
    assert rows > 0, f"no capture has {kind}"


def test_rows_as_objects_are_those_of_arrow(first_light):
    result = weir.read(first_light).flows()
    table = result.to_arrow()
    for row, expected in zip(result, table.to_pylist(), strict=True):
        assert {name: value for name, value in dict(row).items() if name != "ts"} == {
            name: value for name, value in expected.items() if name != "ts"
        }
        assert row.raw[0] == expected["ts"].value if hasattr(expected["ts"], "value") else True


def test_columns_are_chosen_and_limits_end_the_run(first_light):
    result = weir.read(first_light).flows("tcp", columns=["uid", "service"], limit=1)
    assert result.columns.names == ("uid", "service")
    assert [len(row) for row in result] == [2]
    assert len(result.columns.meanings[1]) > 3


def test_workers_do_not_change_rows(first_light):
    one, two = (weir.read(first_light, workers=n).flows().to_arrow() for n in (1, 2))
    assert one.equals(two) and one.num_rows > 1


def test_the_schema_says_what_columns_mean(first_light):
    schema = pyarrow.schema(weir.read(first_light).tls())
    assert b"weir.doc.server_name" in schema.metadata
    assert schema.metadata[b"weir.log"] == b"ssl"
    assert str(schema.field("ts").type) == "timestamp[ns, tz=UTC]"


def test_several_questions_are_answered_in_one_pass(first_light):
    capture = weir.read(first_light)
    asked = {"all": capture.flows(), "tls": capture.tls(), "many": capture.packets()}
    answers = weir.questions(asked)
    assert {name: len(list(answer)) for name, answer in answers.items()} == {
        name: len(list(result)) for name, result in asked.items()
    }
    together = {"all": 0, "tls": 0, "many": 0}
    with weir.questions(asked) as answers:
        for name, _ in answers.rows():
            together[name] += 1
    assert together == {name: len(list(result)) for name, result in asked.items()}


def test_questions_that_are_not_read_end_the_run_with_advice(first_light):
    capture = weir.read(*[first_light] * 40)
    answers = weir.questions({"unread": capture.packets(), "read": capture.aggregate("count()")}, queue_bytes=1)
    with pytest.raises(weir.WeirError, match="`unread` wait to be read"):
        list(answers["read"])


def test_kinds_and_examples_exist():
    assert set(KINDS) <= set(weir.kinds()) and len(EXAMPLES) >= 4
    assert json.dumps(weir.logs())


def test_columns_that_are_not_asked_for_change_nothing():
    """Columns are not computed unless they are asked for: they have the values that they have among all."""
    conditions = {"files": "files.total_bytes > 0", "x509": "x509.version == 3"}
    capture = weir.read(*EXAMPLES)
    kinds = [*weir.logs(), "flows", "packets", "sessions", "events"]
    with weir.questions({kind: capture.ask(kind, filter=conditions.get(kind, "")) for kind in kinds}) as answers:
        whole = {kind: pyarrow.table(answer) for kind, answer in answers.items()}
    # Several questions of a kind in one pass copy rows from each other; each half is also asked alone.
    for stride in (0, 1):
        asked = {}
        for kind, table in whole.items():
            columns = table.schema.names[stride::2]
            asked[kind] = capture.ask(kind, columns=columns, filter=conditions.get(kind, ""))
            asked[f"{kind}, one"] = capture.ask(kind, columns=columns[-1:], filter=conditions.get(kind, ""))
        with weir.questions(asked) as answers:
            for name, answer in answers.items():
                table = whole[name.split(",")[0]]
                found = pyarrow.table(answer)
                assert found.equals(table.select(found.schema.names)), name
    for columns in (["layers"], ["length"], ["info", "ts"]):
        alone = capture.packets(columns=columns).to_arrow()
        assert alone.equals(whole["packets"].select(columns)), columns
    assert sum(1 for table in whole.values() if table.num_rows) > 25
