"""The same data source on Sail, in a process of its own: a process has one kind of sessions."""

import json
import pathlib
import subprocess
import sys

import pytest

from conftest import TOP
from test_rows import of_weir

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from pysail.spark import SparkConnectServer
from weir.spark import WeirDataSource

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
_, port = server.listening_address
session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
session.dataSource.register(WeirDataSource)
reader = session.read.format("weir").option("log", "tls").option("partitions", "4").option("chunkBytes", "4000")
frame = reader.option("index", sys.argv[2]).load(sys.argv[1])
rows = [[row["uid"], row["server_name"]] for row in frame.where("_error is null").collect()]
print(json.dumps(rows))
session.stop()
server.stop()
"""


def test_sail_has_the_same_rows(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pysail")
    capture = TOP / "examples" / "first-light.pcap"
    words = [sys.executable, "-c", PROGRAM, str(capture), str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = sorted(json.loads(ran.stdout.splitlines()[-1]), key=str)
    expected = of_weir([capture], "tls", columns=["uid", "server_name"])
    assert found == sorted((list(row) for row in expected.elements()), key=str)
