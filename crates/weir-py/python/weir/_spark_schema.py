"""Columns of Weir as columns of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ERROR = "_error"
"""The column with what could not be read. Rows of traffic have none there, and rows with an error nothing else."""


def spark_name(name: str) -> str:
    """The name of a column in Spark, where a dot would select a part: ``id.orig_h`` becomes ``id_orig_h``."""
    return name.replace(".", "_")


def schema_of(arrow: Any, nanoseconds: bool, errors: bool) -> Any:
    """The schema of Spark for rows with this schema of Arrow."""
    import pyarrow as pa
    from pyspark.sql import types

    def of(kind: pa.DataType) -> Any:
        if pa.types.is_boolean(kind):
            return types.BooleanType()
        if pa.types.is_integer(kind):
            return types.LongType()
        if pa.types.is_floating(kind):
            return types.DoubleType()
        if pa.types.is_timestamp(kind):
            return types.TimestampType()
        if pa.types.is_binary(kind):
            return types.BinaryType()
        if pa.types.is_list(kind):
            return types.ArrayType(of(kind.value_type))
        return types.StringType()

    fields = []
    for field in arrow:
        meaning = (arrow.metadata or {}).get(f"weir.doc.{field.name}".encode(), b"").decode()
        metadata = {"comment": meaning} if meaning else {}
        fields.append(types.StructField(spark_name(field.name), of(field.type), True, metadata))
        if nanoseconds and pa.types.is_timestamp(field.type):
            fields.append(types.StructField(f"{spark_name(field.name)}_ns", types.LongType(), True))
    if errors:
        fields.append(types.StructField(ERROR, types.StringType(), True))
    return types.StructType(fields)


def arrow_of(schema: Any) -> Any:
    """The schema of Arrow for a schema of Spark; Sail passes one of Arrow."""
    import inspect

    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if isinstance(schema, pa.Schema):
        return schema
    # Spark 4.0 has no other time zone than UTC.
    is_stated = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if is_stated else to_arrow_schema(schema)


class Converter:
    """Makes batches with a schema of Spark."""

    def __init__(self, schema: Any) -> None:
        self._schema = arrow_of(schema)
        names = self._schema.names
        self._error = names.index(ERROR) if ERROR in names else None

    def batch(self, batch: Any) -> Any:
        """The rows of traffic of a batch."""
        import pyarrow as pa

        columns = {spark_name(name): batch.column(index) for index, name in enumerate(batch.schema.names)}
        arrays = []
        for field in self._schema:
            column = columns.get(field.name)
            if column is None and field.name.endswith("_ns"):
                column = columns[field.name.removesuffix("_ns")].cast(pa.int64())
            if column is None:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            else:
                arrays.append(_cast(column, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def errors(self, errors: Sequence[str]) -> Any:
        """Rows of errors."""
        import pyarrow as pa

        arrays = [pa.nulls(len(errors), field.type) for field in self._schema]
        if self._error is not None:
            arrays[self._error] = pa.array(errors, self._schema.field(self._error).type)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    @property
    def has_errors(self) -> bool:
        """Whether there is a column for errors."""
        return self._error is not None


def _cast(column: Any, target: Any) -> Any:
    from typing import cast

    import pyarrow as pa
    import pyarrow.compute

    pc = cast(Any, pyarrow.compute)
    if pa.types.is_uint64(column.type):
        # Spark has no unsigned numbers: what does not fit is null.
        column = pc.if_else(pc.greater(column, (1 << 63) - 1), pa.scalar(None, column.type), column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type):
        inner = _cast(column.values, target.value_type)
        return pa.ListArray.from_arrays(column.offsets, inner, type=target, mask=column.is_null())
    # Times lose their nanoseconds.
    return column.cast(target, safe=False)
