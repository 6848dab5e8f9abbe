"""Captures behind URLs: indices and ranges of bytes through fsspec."""

from collections import Counter
from typing import Any

from conftest import TOP
from test_rows import of_weir, plain


def test_captures_behind_urls_are_read_in_ranges(monkeypatch: Any) -> None:
    import fsspec

    from weir import _spark_files
    from weir.spark import WeirDataSource

    capture = TOP / "examples" / "first-light.pcap"
    system = fsspec.filesystem("memory")
    system.pipe_file("/lake/first.pcap", capture.read_bytes())
    system.pipe_file("/lake/.hidden", b"no capture")
    monkeypatch.setattr(_spark_files, "READ_BYTES", 30_000)
    source = WeirDataSource({"path": "memory://lake/*", "log": "flows", "partitions": "4", "chunkBytes": "20000"})
    found: Counter[Any] = Counter()
    for _ in range(2):
        found.clear()
        reader = source.reader(source.schema())
        tasks = reader.partitions()
        assert len(tasks) == 4
        for task in tasks:
            for batch in reader.read(task):
                for row in batch.to_pylist():
                    assert row.pop("_error") is None
                    found[tuple(plain(value) for value in row.values())] += 1
        assert system.exists("/lake/first.pcap.weir-index"), "the index is kept beside the capture"
    assert found == of_weir([capture], "flows")


def test_names_of_hadoop_are_those_of_s3() -> None:
    from weir._spark_files import LocalStore, RemoteStore, is_capture, store_of

    store, path = store_of("s3a://bucket/x.pcap")
    assert isinstance(store, RemoteStore) and path == "s3://bucket/x.pcap"
    store, path = store_of("file:///captures/x.pcap")
    assert isinstance(store, LocalStore) and path == "/captures/x.pcap"
    names = ("x.pcap", "a/.x", "a/_SUCCESS", "x.pcap.weir-index", "x.pcap.part")
    assert [name for name in names if is_capture(name)] == ["x.pcap"]
