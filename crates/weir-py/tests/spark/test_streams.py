"""A folder that a sensor fills, as a stream."""

import os
import pathlib
import struct
from collections import Counter
from typing import Any

from conftest import TOP
from test_rows import of_weir, plain

FIRST_LIGHT = TOP / "examples" / "first-light.pcap"


def parts_of(capture: pathlib.Path, count: int) -> list[bytes]:
    """Captures of consecutive packets of a capture."""
    whole = capture.read_bytes()
    header, records, at = whole[:24], [], 24
    order = "<" if whole[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    while at < len(whole):
        (length,) = struct.unpack_from(f"{order}I", whole, at + 8)
        records.append(whole[at : at + 16 + length])
        at += 16 + length
    size = -(-len(records) // count)
    return [header + b"".join(records[first : first + size]) for first in range(0, len(records), size)]


def test_connections_across_captures_are_one_row(spark: Any, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sensor"
    folder.mkdir()
    found: Counter[Any] = Counter()

    def take(frame: Any, _batch: int) -> None:
        for row in frame.where("_error is null").drop("_error").collect():
            found[tuple(plain(value) for value in row)] += 1

    parts = parts_of(FIRST_LIGHT, 5)
    # Time passes behind the last packet, so that connections end: another capture, hours later.
    later = bytearray(parts[-1][: 24 + 16 + struct.unpack_from("<I", parts[-1], 24 + 8)[0]])
    struct.pack_into("<I", later, 24, struct.unpack_from("<I", later, 24)[0] + 1000)
    stream = spark.readStream.format("weir").option("log", "flows").option("cut", "365d").option("settle", "0s")
    stream = stream.option("partitions", "3").option("chunkBytes", "4000").load(str(folder))
    for number, part in enumerate([*parts, bytes(later) * 1]):
        path = folder / f"{number}.pcap"
        path.write_bytes(part)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        if number % 2:
            query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "check"))
            query.trigger(availableNow=True).start().awaitTermination()
    paths = sorted(folder.glob("*.pcap"))
    expected = of_weir(paths, "flows", columns=None)
    missing, wrong = expected - found, found - expected
    assert not wrong
    # The connection of the last capture is open.
    assert sum(missing.values()) <= 2 and sum(found.values()) > 100


def test_the_latest_capture_is_read_when_it_is_complete(tmp_path: pathlib.Path) -> None:
    from weir.spark import Options, StreamReader

    for number in range(2):
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(FIRST_LIGHT.read_bytes())
    os.utime(tmp_path / "0.pcap", (1_700_000_000, 1_700_000_000))
    reader = StreamReader(Options({"path": str(tmp_path), "log": "flows"}), None)
    assert reader.latestOffset()["name"].endswith("0.pcap")
    settled = StreamReader(Options({"path": str(tmp_path), "log": "flows", "settle": "0s"}), None)
    assert settled.latestOffset()["name"].endswith("1.pcap")
    assert settled.latestOffset(settled.initialOffset(), None)["name"].endswith("1.pcap")
    one = StreamReader(Options({"path": str(tmp_path), "log": "flows", "settle": "0s", "maxFiles": "1"}), None)
    assert one.latestOffset(one.initialOffset(), None)["name"].endswith("0.pcap")
