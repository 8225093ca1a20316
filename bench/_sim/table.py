"""Columns by number, for what is known of hosts and clocks without an object each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Table:
    """numpy columns that grow together; new rows are zero. A column is a new array once it has grown."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """Names and dtypes."""
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in columns.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def reach(self, rows: int) -> None:
        """To have at least so many rows."""
        for name, column in self._columns.items():
            if len(column) < rows:
                self._columns[name] = np.zeros(max(rows, 2 * len(column)), column.dtype)
                self._columns[name][: len(column)] = column
