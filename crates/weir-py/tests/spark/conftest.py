"""A session of Spark on this machine, and of Sail."""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", minversion="4.0")

TOP = pathlib.Path(__file__).parents[4]
EXAMPLES = sorted((TOP / "examples").glob("*.pcap"))
TRACES = TOP.parent / "shared" / "traces"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from weir.spark import WeirDataSource

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("weir")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(WeirDataSource)
    yield session
    session.stop()


@pytest.fixture
def load(spark: Any, tmp_path: pathlib.Path) -> Callable[..., Any]:
    """Loads captures; indices are kept in a folder of the test."""

    def load(path: object, **options: object) -> Any:
        reader = spark.read.format("weir").option("index", str(tmp_path / "indices"))
        (tmp_path / "indices").mkdir(exist_ok=True)
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return reader.load(str(path))

    return load
