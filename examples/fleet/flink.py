"""Bytes by sensor and minute, from the batches in the topic `weir.conn`, with PyFlink.

Needs `pip install apache-flink pyarrow`, and flink-sql-connector-kafka of the same version as Flink, in `jars/`.
"""

import glob
import os

import pyarrow as pa


def rows(batch: bytes):
    """The rows of a message: sensor, second of the start, bytes of both directions."""
    with pa.ipc.open_stream(batch) as stream:
        table = stream.read_all()
    columns = [table[name].to_pylist() for name in ("sensor", "ts", "orig_bytes", "resp_bytes")]
    for sensor, start, sent, received in zip(*columns):
        yield sensor, int(start.timestamp()), (sent or 0) + (received or 0)


def main():
    from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
    from pyflink.table.udf import udtf

    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    jars = ";".join("file://" + os.path.abspath(jar) for jar in glob.glob("jars/*.jar"))
    table.get_config().set("pipeline.jars", jars)
    # The format `raw` hands a message over as its bytes.
    table.execute_sql("""
        CREATE TABLE batches (
            message BYTES,
            headers MAP<STRING, BYTES> METADATA
        ) WITH (
            'connector' = 'kafka', 'topic' = 'weir.conn', 'properties.bootstrap.servers' = '127.0.0.1:9092',
            'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset', 'format' = 'raw'
        )""")
    types = [DataTypes.STRING(), DataTypes.BIGINT(), DataTypes.BIGINT()]
    table.create_temporary_system_function("batch_rows", udtf(rows, result_types=types))
    table.execute_sql("""
        SELECT sensor, FLOOR(second / 60) * 60 AS minute, SUM(bytes) AS bytes
        FROM batches, LATERAL TABLE(batch_rows(message)) AS of_batch(sensor, second, bytes)
        GROUP BY sensor, FLOOR(second / 60) * 60""").print()


if __name__ == "__main__":
    main()
