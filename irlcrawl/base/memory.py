"""Freed memory goes back to the system now and then, so that a crawl of weeks is as large as the things it holds.

glibc keeps freed memory for later use and gives back only the very end of its heap. Batches of all sizes come and go in
the frontier and the workers, so that holes of many megabytes stay between living pieces (measured: half of a worker was
holes), and grow for hours. Giving back 20 MB and touching it again takes 4 CPU-ms.

The frontier works on large batches, and keeps some freed memory until then: given back and asked for again batch by
batch, it costs a page fault for each 4 KiB (measured: a tenth of a turn). A worker works page by page, and gives a
large piece pages of its own, which go back with it. Taken from the heap, a large piece leaves a hole that small pieces
settle in, and glibc takes ever larger pieces from the heap once one was freed. Measured after half an hour of a crawl:
workers of 79 and 84 MiB without pages of their own, 69 and 70 with them. It costs 4.5 page faults a page instead of 2,
because what a page needs anew is kept below that size or made once (coding.py, record.py, fingerprint.py).
"""

from __future__ import annotations

import ctypes
import errno
import importlib
from collections.abc import Callable
from functools import cache

from irlcrawl.base.clock import Clock

TRIM_S = 2.0
KEEP_BYTES = 128 << 20
"""Freed bytes that the frontier keeps at the end of its heap between two trims."""
_PIECE_BYTES_MAX = 32 << 20  # the most glibc allows: larger pieces have pages of their own
_PIECE_BYTES = 128 << 10  # what glibc begins with; being set, it stays (72 MiB with 512 KiB where this had 66)
_END_BYTES = 512 << 10  # glibc begins with 128 KiB, which it gives back and asks for again within most large pages
NO_THREAD = "can't start new thread"
"""Python's message if there is no room for the stack of a thread; also the message of the thread that ends a loop's
other threads."""
_PYMEM_DOMAIN_RAW = 0
_PYDATAMEM_SETHANDLER = 304  # its place among the functions that numpy lends to extensions
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)


def ran_out(error: BaseException | None) -> bool:
    """Whether an error came of too little memory. A failure on the way out hides the first one, so causes are looked
    at, too."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, RuntimeError) and NO_THREAD in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _find_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim(3); None for a C library without it."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _set(parameter: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(parameter, value)


def one_heap() -> None:
    """Use one heap for all threads of this process and of those it forks; call it before any thread begins. Otherwise
    threads have heaps of their own, whose ends malloc_trim does not give back: the largest turn so far stayed in
    memory."""
    _set(_M_ARENA_MAX, 1)


def _keep() -> None:
    """Let glibc keep KEEP_BYTES of freed memory, and take pieces of any size from it."""
    _set(_M_TRIM_THRESHOLD, KEEP_BYTES)
    _set(_M_MMAP_THRESHOLD, _PIECE_BYTES_MAX)


def _set_apart() -> None:
    """Let pieces of _PIECE_BYTES or more never lie in the heap, and its end, where the smaller ones of each page come
    and go, rest until the next trim."""
    _set(_M_MMAP_THRESHOLD, _PIECE_BYTES)
    _set(_M_TRIM_THRESHOLD, _END_BYTES)


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx, and numpy's PyDataMemAllocator, which differs in that its `free` is told the size as well."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free"))


class _Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler (NEP 49)."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator))


@cache
def _plain() -> tuple[Callable[[object], object], object, object] | None:
    """(function that sets a thread's handler of arrays, the handler that asks malloc as Python itself does, the memory
    in which it stands). None for a numpy that does not lend its functions as today's does."""
    try:
        lent = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API  # as import_array() of C has it
    except (ImportError, AttributeError):
        return None
    api = ctypes.pythonapi
    handler = _Handler(name=b"irlcrawl", version=1)
    api.PyMem_GetAllocator(_PYMEM_DOMAIN_RAW, ctypes.byref(handler.allocator))
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    functions = pointer(("PyCapsule_GetPointer", api))(lent, None)
    set_handler = ctypes.cast(functions, ctypes.POINTER(ctypes.c_void_p))[_PYDATAMEM_SETHANDLER]
    of_handler = capsule(("PyCapsule_New", api))(ctypes.addressof(handler), b"mem_handler", None)
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(set_handler), of_handler, handler


def plain_arrays() -> None:
    """Let small arrays of this thread, and of tasks it begins from now on, have blocks of malloc's own. numpy keeps the
    first seven freed blocks of each size below a KiB for good: 3.6 MB that come one by one from all over the heap, for
    hours, and hold a page of it each. Not while tracemalloc runs: what Python asks malloc by is its own then, counts
    blocks that numpy has counted already, and crashes once it has stopped."""
    import tracemalloc  # numpy has loaded most of what that loads

    if not tracemalloc.is_tracing() and (plain := _plain()) is not None:
        set_handler, handler, _ = plain
        set_handler(handler)


class Trim:
    """Call `now_and_then()` often, on a thread for which nothing waits: it takes some milliseconds once in TRIM_S.

    keep: up to KEEP_BYTES of freed memory stay with the process until then; otherwise large pieces go back as they are
    freed.
    """

    def __init__(self, clock: Clock, keep: bool = False) -> None:
        self._clock = clock
        self._trim = _find_trim()
        self._next = clock.now() + TRIM_S
        if keep:
            _keep()
        else:
            _set_apart()

    @property
    def due(self) -> bool:
        return self._clock.now() >= self._next

    def now_and_then(self) -> None:
        """Give free memory back, unless that was done less than TRIM_S ago. Releases the GIL meanwhile."""
        if self.due and self._trim is not None:
            self._trim(0)
            self._next = self._clock.now() + TRIM_S
