"""What a caller of `Drum` may pass: every mistake is found before it does anything, and named."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeGuard

from drum.kernels import Check, CheckUpdate, Kernel, Keys, Update
from drum.ragged import BYTES, Array, Column, Ragged, Schema
from drum.wide import LOW

import numpy as np

RAM_BYTES_LEAST = 256


def checked_call(name: str, function: Callable[..., Any]) -> None:
    """A function by the name of its option. TypeError."""
    if not callable(function):
        raise TypeError(f"{name} is a function, not {kind_of(function)}")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is called and done: a function with yield or async would never run")


def checked_sizes(**sizes: int) -> None:
    """Bytes and rows by the names of their options. TypeError, ValueError."""
    for name, size in sizes.items():
        if not isinstance(size, (int, np.integer)):
            raise TypeError(f"{name} is a whole number, not {size!r}")
        least = RAM_BYTES_LEAST if name == "ram_bytes" else 0
        if size < least:
            raise ValueError(f"{name} is at least {least}, not {size}")


def checked_kernel(kernel: Kernel, values: Schema) -> Kernel:
    """A kernel that fits a store's values. TypeError, ValueError."""
    if isinstance(kernel, type) or not callable(kernel) or not hasattr(kernel, "columns"):
        raise TypeError(f"kernel is an object such as CheckUpdate(), with `columns` and __call__, not {kernel!r}")
    if isinstance(kernel, (CheckUpdate, Update)) and kernel.columns and set(kernel.columns) != set(values):
        raise ValueError(f"the kernel stores the columns {list(kernel.columns)}, and the drum the values {values}")
    return kernel


def checked_key_bits(key_bits: int) -> int:
    if key_bits not in (64, 128):
        raise ValueError(f"key_bits is 64 or 128, not {key_bits}")
    return int(key_bits)


def checked_op(op: int) -> int:
    """TypeError, ValueError."""
    try:
        number = operator.index(op)
    except TypeError:
        raise TypeError(f"op is a whole number, not {op!r}") from None
    if number not in range(256):
        raise ValueError(f"op is 0 to 255, not {number}")
    return number


def checked_values(values: Schema) -> dict[str, str]:
    """Columns of a store: fixed-size numbers, each kind as files have it. TypeError, ValueError."""
    if not isinstance(values, Mapping):
        raise TypeError(f"values are a dict such as {{'n': 'i8'}}, not {kind_of(values)}")
    kinds: dict[str, str] = {}
    for name, kind in values.items():
        try:
            known = isinstance(name, str) and name not in ("key", "op", LOW)
            fixed = known and kind != BYTES and np.dtype(kind).kind in "biuf"
        except TypeError:
            fixed = False
        if not fixed:
            raise ValueError(f"values are fixed-size numbers such as {{'n': 'i8'}}, not {{{name!r}: {kind!r}}}")
        kinds[name] = np.dtype(kind).str[1:]
    return kinds


def checked_keys(keys: Keys, key_bits: int) -> dict[str, Keys]:
    """Keys u8[n], or u8[n, 2] of 128 bits, as columns. TypeError."""
    wide = key_bits == 128
    shape = keys.shape[1:] if _plain(keys) and keys.ndim else None
    if shape != ((2,) if wide else ()) or keys.dtype != np.uint64:
        wanted = "a numpy array of uint64[n, 2]" if wide else "a 1-d numpy array of uint64"
        raise TypeError(f"keys must be {wanted}, not {kind_of(keys)}: see drum.keys_of")
    if wide:
        return {"key": np.ascontiguousarray(keys[:, 0]), LOW: np.ascontiguousarray(keys[:, 1])}
    return {"key": np.ascontiguousarray(keys)}


def checked_aux(aux: Mapping[str, Column], taken: Container[str]) -> dict[str, Column]:
    """Columns beside the keys. TypeError, ValueError."""
    for name, column in aux.items():
        if name in taken:
            raise ValueError(f'a column cannot be named "{name}"')
        if isinstance(column, Ragged):
            _check_ragged(name, column)
        elif not (_plain(column) and column.ndim == 1 and column.dtype.kind in "biuf"):
            raise TypeError(f"column {name!r} must be a 1-d array of numbers or a Ragged, not {kind_of(column)}")
    return dict(aux)


def told_by(kernel: Kernel) -> tuple[str, ...]:
    """Columns that a kernel adds to the rows it hands on: theirs cannot have these names."""
    if isinstance(kernel, Check):
        return ("found",)
    return ("new",) if isinstance(kernel, CheckUpdate) and kernel.duplicates else ()


def _plain(array: object) -> TypeGuard[Array]:
    """An array that means what its memory holds: of a masked one the mask would be lost."""
    return isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)


def _check_ragged(name: str, column: Ragged) -> None:
    """Made by hand it may not be one, and written to disk it could not be read again. TypeError, ValueError."""
    wrong = column.fault()
    if wrong:
        raise ValueError(f"column {name!r} is no Ragged: {wrong}")


def checked_kinds(schema: Schema, values: Schema) -> None:
    """Columns of rows that a kernel stores as values of the same names: their numbers fit. TypeError."""
    for name, kind in values.items():
        given = schema.get(name, kind)
        if given != BYTES and not np.can_cast(given, kind):
            raise TypeError(f"column {name!r} is {given}, which does not fit the {kind} that the drum stores")


def kind_of(what: object) -> str:
    return f"{what.dtype}{list(what.shape)}" if _plain(what) else type(what).__name__
