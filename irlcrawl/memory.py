"""Memory that was freed goes back to the system now and then, so that a crawl of weeks is as large as what it holds.

glibc keeps freed memory for what comes next and gives back only what lies at the very end of its heap. Batches of all
sizes come and go in the frontier and the workers, so that holes of many megabytes stay between what lives (measured:
half of a worker was holes), and grow for hours. Giving back 20 MB and touching it again takes 4 CPU-ms.

Who works on large batches keeps some of it until then: given back and asked for again batch by batch, memory costs a
page fault for each 4 KiB (measured: a tenth of a turn). Who works page by page gives a large piece pages of its own
instead, which go with it: taken from the heap it leaves a hole that small pieces settle in, and glibc takes ever larger
ones from there once one was freed (measured after half an hour of a crawl: workers of 79 and 84 MiB, and of 69 and 70;
it costs 3 page faults a page, where what a page needs anew is kept below that size or made once: decode.py, record.py,
fingerprint.py).
"""

from __future__ import annotations

import ctypes
import errno
import importlib
from collections.abc import Callable
from functools import cache

from irlcrawl.clock import Clock

TRIM_S = 2.0
KEEP_BYTES = 128 << 20
"""At the end of the heap."""
_PIECE_BYTES_MAX = 32 << 20  # the most glibc allows: larger pieces have pages of their own
_PIECE_BYTES = 128 << 10  # what glibc begins with; being set, it stays (72 MiB with 512 KiB where this had 66)
_END_BYTES = 512 << 10  # glibc begins with 128 KiB, which it gives back and asks for again within most large pages
NO_THREAD = "can't start new thread"
"""Python's words where there is no room for the stack of one, as for the one that ends a loop's others."""
_PYMEM_DOMAIN_RAW = 0
_PYDATAMEM_SETHANDLER = 304  # its place among the functions that numpy lends to extensions
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)


def ran_out(error: BaseException | None) -> bool:
    """Whether memory did. What fails for want of it on the way out hides the first that did."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, RuntimeError) and NO_THREAD in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _find_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim(3); None where the C library has none and keeps its heap by rules of its own."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _set(parameter: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(parameter, value)


def one_heap() -> None:
    """One heap for all threads of this process and of those it forks; before any thread begins. Threads have heaps of
    their own else, of which malloc_trim leaves the end as it is: the largest turn so far stayed in memory."""
    _set(_M_ARENA_MAX, 1)


def _keep() -> None:
    """Let glibc keep KEEP_BYTES that were freed, and take pieces of any size from them."""
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
    """What sets a thread's handler of arrays, the handler that asks malloc as Python itself does, and the memory that
    it stands in. None where numpy does not lend its functions as it does today."""
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
    """numpy keeps the first seven freed blocks of each size below a KiB for good: 3.6 MB that come one by one from all
    over the heap, for hours, and hold a page of it each. What this thread, and tasks it begins from now on, make of
    arrays has blocks of malloc's own instead."""
    if (plain := _plain()) is not None:
        set_handler, handler, _ = plain
        set_handler(handler)


class Trim:
    """`now_and_then()` often, on a thread that nobody waits for: it takes some milliseconds once in TRIM_S.

    keep: up to KEEP_BYTES of freed memory stay with the process until then; else large pieces go as they are freed."""

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
        """Give back what is free, if that was not done for TRIM_S. Releases the GIL meanwhile."""
        if self.due and self._trim is not None:
            self._trim(0)
            self._next = self._clock.now() + TRIM_S
