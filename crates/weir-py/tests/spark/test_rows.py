"""Rows of Spark are those of Weir, whatever the partitions."""

import datetime
import math
import pathlib
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import weir

from conftest import EXAMPLES, TOP, TRACES

PARTITIONS = [1, 4, 16]
LOGS = [*((log, PARTITIONS) for log in ("flows", "packets", "tls")), *((log, [4]) for log in ("http", "dns", "ftp", "files", "x509"))]
CHUNK_BYTES = 4000

Load = Callable[..., Any]


def plain(value: Any) -> Any:
    """A value as both sides have it: microseconds, and no object without a hash."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return tuple(plain(one) for one in value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    return value


def of_weir(paths: list[pathlib.Path], log: str, **options: Any) -> Counter[Any]:
    """The rows of Weir itself."""
    rows: Counter[Any] = Counter()
    try:
        for row in weir.read(*map(str, paths)).ask(log, **options):
            rows[tuple(plain(value) for value in row)] += 1
    except weir.CaptureError:
        pass
    return rows


def of_spark(frame: Any) -> Counter[Any]:
    """The rows of traffic of Spark."""
    rows = frame.where("_error is null").drop("_error").collect()
    return Counter(tuple(plain(value) for value in row) for row in rows)


def unrepeated(log: str, rows: Counter[Any]) -> Counter[Any]:
    """Certificates that Weir shows once a day are in Spark as often as they were sent: compare the certificates."""
    return Counter({row[1] for row in rows}) if log == "x509" else rows


@pytest.mark.parametrize(("log", "counts"), LOGS, ids=lambda value: str(value))
def test_rows_are_the_same_in_any_number_of_partitions(load: Load, log: str, counts: list[int]) -> None:
    path = TOP / "examples" / "first-light.pcap"
    expected = unrepeated(log, of_weir([path], log))
    for partitions in counts:
        frame = load(path, log=log, partitions=partitions, chunkBytes=CHUNK_BYTES)
        assert frame.rdd.getNumPartitions() == partitions
        assert unrepeated(log, of_spark(frame)) == expected, partitions


@pytest.mark.parametrize("log", ["flows", "dns"])
def test_many_captures_are_one_sequence(load: Load, log: str, tmp_path: pathlib.Path) -> None:
    # The reader of Weir orders captures by their first packets, and so does Spark.
    paths = [path for path in EXAMPLES if path.stat().st_size < 400_000][:20]
    expected = of_weir(paths, log)
    for partitions in (4, 16) if log == "flows" else (4,):
        frame = load(",".join(map(str, paths)), log=log, partitions=partitions, chunkBytes=20_000)
        assert of_spark(frame) == expected


def test_captures_of_others_have_the_same_rows(load: Load) -> None:
    paths = sorted(path for path in TRACES.rglob("*.pcap*") if path.is_file() and 4_000 < path.stat().st_size < 1 << 20)
    if not paths:
        pytest.skip(f"no captures in {TRACES}")
    for path in paths[:: max(1, len(paths) // 8)]:
        for log in ("flows", "sessions"):
            frame = load(path, log=log, partitions=6, chunkBytes=CHUNK_BYTES)
            assert of_spark(frame) == of_weir([path], log), (path, log)


def test_a_filter_and_columns_are_pushed(load: Load, first_light: pathlib.Path) -> None:
    frame = load(first_light, log="tls", filter="tls.sni ~ 'shop'", columns="server_name,id_orig_h", errors="ignore")
    assert frame.columns == ["server_name", "id_orig_h"]
    assert [tuple(row) for row in frame.collect()] == [("shop.example.net", "192.0.2.10")]


def test_conditions_of_a_query_become_a_filter(load: Load, first_light: pathlib.Path) -> None:
    everything = load(first_light, log="http", partitions=4, chunkBytes=CHUNK_BYTES)
    pushed = load(first_light, log="http", partitions=4, chunkBytes=CHUNK_BYTES, pushdown="true")
    for condition in ("method = 'GET'", "method = 'GET' and status_code >= 300", "status_code in (200, 404)", "host is not null"):
        assert of_spark(pushed.where(condition)) == of_spark(everything.where(condition)), condition
    from pyspark.sql.datasource import EqualTo, GreaterThan, StringContains

    from weir._spark_filter import filter_of

    assert filter_of("http", [EqualTo(("method",), "GET"), StringContains(("host",), "a")]) == '(http.method == "GET")'
    assert filter_of("flows", [GreaterThan(("orig_bytes",), 5)]) != ""


def test_types_are_those_of_spark(load: Load, first_light: pathlib.Path) -> None:
    frame = load(first_light, log="flows", nanoseconds="true")
    types = dict(frame.dtypes)
    assert types["ts"] == "timestamp" and types["ts_ns"] == "bigint" and types["orig_bytes"] == "bigint"
    assert types["duration"] == "double" and types["id_orig_h"] == "string" and types["_error"] == "string"
    row = frame.orderBy("ts_ns").first()
    first = min(row.raw[0] for row in weir.read(str(first_light)).flows())
    assert row["ts_ns"] == first and row["ts"].replace(tzinfo=datetime.UTC).timestamp() == pytest.approx(first / 1e9, abs=1e-5)
    assert "time" in (frame.schema["ts"].metadata or {}).get("comment", "")


def test_damage_is_a_row_and_no_failed_job(load: Load, first_light: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    whole = first_light.read_bytes()
    (folder / "cut.pcap").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "text.pcap").write_text("no capture at all")
    (folder / "empty.pcap").write_bytes(b"")
    for partitions in (1, 4):
        frame = load(folder, log="flows", partitions=partitions, chunkBytes=CHUNK_BYTES)
        errors = sorted(row["_error"] for row in frame.where("_error is not null").collect())
        assert len(errors) == 3, errors
        assert "ends inside a record" in errors[0] and "is empty" in errors[1] and "not a capture" in errors[2]
        assert of_spark(frame) == of_weir([folder / "cut.pcap"], "flows")
    assert load(folder, log="flows", errors="ignore").count() == sum(of_spark(frame).values())
    with pytest.raises(Exception, match="not a capture"):
        load(folder, log="flows", errors="fail").count()


def test_an_index_is_made_once_and_again_when_the_capture_changes(
    spark: Any, first_light: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    capture = tmp_path / "x.pcap"
    shutil.copy(first_light, capture)
    index = tmp_path / "x.pcap.weir-index"
    rows = spark.read.format("weir").option("log", "index").load(str(tmp_path)).collect()
    assert len(rows) == 1 and rows[0]["packets"] > 0 and rows[0]["_error"] is None
    made = index.stat().st_mtime_ns
    reader = spark.read.format("weir").option("log", "flows")
    count = reader.load(str(capture)).count()
    assert count == sum(of_weir([capture], "flows").values())
    assert index.stat().st_mtime_ns == made, "the index was used"
    index.write_bytes(index.read_bytes()[:-1])
    assert reader.load(str(capture)).count() == count, "a damaged index is made again"
    capture.write_bytes(first_light.read_bytes()[:24])
    assert reader.load(str(capture)).count() == 0, "the index of another capture is made again"


def test_compressed_captures_are_divided_at_frames(load: Load, first_light: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("zstd is missing: apt-get install zstd")
    import subprocess

    bytes_ = first_light.read_bytes()
    frames = b"".join(
        subprocess.run(["zstd", "-c"], input=bytes_[at : at + 20_000], capture_output=True, check=True).stdout
        for at in range(0, len(bytes_), 20_000)
    )
    path = tmp_path / "x.pcap.zst"
    path.write_bytes(frames)
    frame = load(path, log="flows", partitions=16, chunkBytes=CHUNK_BYTES)
    assert frame.rdd.getNumPartitions() > 1
    assert of_spark(frame) == of_weir([path], "flows")


def test_mistakes_say_what_to_do(load: Load, first_light: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for options, message in (
        ({"log": "tsl"}, "there is no log `tsl`"),
        ({"log": "tls", "limit": 3}, "Spark does this"),
        ({"log": "tls", "filter": "tls.sni == 443"}, "is text"),
        ({"log": "tls", "worker": 3}, "is `workers` meant"),
        ({"log": "tls", "errors": "hide"}, "none of column, fail, ignore"),
    ):
        with pytest.raises(Exception, match=message):
            load(first_light, **options).count()
    with pytest.raises(Exception, match="no such capture"):
        load(tmp_path / "missing.pcap", log="flows").count()


def test_aggregates_have_one_partition(load: Load, first_light: pathlib.Path) -> None:
    frame = load(first_light, log="aggregate", aggregate="count() by ip.src", partitions=16, chunkBytes=CHUNK_BYTES)
    assert frame.rdd.getNumPartitions() == 1
    assert of_spark(frame) == of_weir([first_light], "aggregate", aggregate="count() by ip.src")


@pytest.fixture
def first_light() -> pathlib.Path:
    return TOP / "examples" / "first-light.pcap"
