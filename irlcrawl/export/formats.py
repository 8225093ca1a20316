"""Files of rows: JSON lines, and Parquet if pyarrow is installed. A file gets its name when it is whole."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Protocol

import orjson

from irlcrawl.base.job_files import temporary
from irlcrawl.export.media.extras import needed
from irlcrawl.export.output import file_at
from irlcrawl.export.table import Column, Row

JSON_LINES, PARQUET = "jsonl", "parquet"
ROWS_MAX = 50_000
CHARS_MAX = 64 << 20
"""A row group of Parquet has so many rows, or so much text, at most."""


class Writer(Protocol):
    """A file of rows. `close` gives it its name, `drop` deletes it."""

    rows: int

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...

    def drop(self) -> None: ...


def json_line(names: Sequence[str], row: Row) -> bytes:
    """A row as one line; characters that are half of a pair are escaped."""
    try:
        return orjson.dumps(dict(zip(names, row)), option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(dict(zip(names, row))).encode() + b"\n"


class JsonLines:
    """Every column in every line; null for none."""

    def __init__(self, path: str, columns: Sequence[Column]) -> None:
        self._path, self._names, self.rows = path, [column.name for column in columns], 0
        self._stream: BinaryIO = open(temporary(path), "wb", buffering=1 << 20)  # noqa: SIM115

    def write(self, row: Row) -> None:
        self._stream.write(json_line(self._names, row))
        self.rows += 1

    def close(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        os.replace(temporary(self._path), self._path)

    def drop(self) -> None:
        self._stream.close()
        os.unlink(temporary(self._path))


class Parquet:
    """Compressed by Zstandard, with statistics and dictionaries where they are worth it."""

    def __init__(self, path: str, columns: Sequence[Column]) -> None:
        self._arrow = arrow = needed("pyarrow", "--format parquet")
        self._path, self._columns, self.rows = path, columns, 0
        types = {
            "text": arrow.string(), "int16": arrow.int16(), "int32": arrow.int32(), "int64": arrow.int64(),
            "time": arrow.timestamp("ms", "UTC"), "texts": arrow.list_(arrow.string()),
            "map": arrow.map_(arrow.string(), arrow.string()),
        }  # fmt: skip
        self._types = [types[column.type] for column in columns]
        schema = arrow.schema([(column.name, type_) for column, type_ in zip(columns, self._types)])
        self._file = open(temporary(path), "wb", buffering=1 << 20)  # noqa: SIM115
        writer = needed("pyarrow.parquet", "--format parquet").ParquetWriter
        self._writer = writer(self._file, schema, compression="zstd")
        self._schema = schema
        self._waiting: list[Row] = []
        self._chars = 0

    def write(self, row: Row) -> None:
        self._waiting.append(row)
        last = row[-1]
        self._chars += len(last) if isinstance(last, str) else 0  # the text of a page, where there is one
        self.rows += 1
        if len(self._waiting) >= ROWS_MAX or self._chars >= CHARS_MAX:
            self._flush()

    def _flush(self) -> None:
        arrays = [self._array(*one) for one in zip(self._columns, self._types, zip(*self._waiting))]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._waiting, self._chars = [], 0

    def _array(self, column: Column, type_: Any, values: Iterable[Any]) -> Any:
        if column.type == "time":
            return self._arrow.array(values, self._arrow.string()).cast(type_)
        if column.type == "map":
            return self._arrow.array([None if one is None else list(one.items()) for one in values], type_)
        return self._arrow.array(values, type_, from_pandas=False)

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(temporary(self._path), self._path)

    def drop(self) -> None:
        with contextlib.suppress(Exception):  # it writes its end, or complains later that it could not
            self._writer.close()
        self._file.close()
        os.unlink(temporary(self._path))


def open_file(path: str, columns: Sequence[Column], format_: str) -> Writer:
    """A new file of rows. JobError if its format needs a library that is missing, or `path` is no file."""
    path = file_at(path)
    return Parquet(path, columns) if format_ == PARQUET else JsonLines(path, columns)
