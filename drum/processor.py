"""numpy sorts with AVX-512 where there is one, which on AMD's Zen 4 is the slow way: this asks for AVX2 there.

The sort parts what lies on either side of a pivot by compressing stores (vpcompressq to memory), which Zen 4 has in
microcode: 60 ns a key where the AVX2 sort takes 12, and drum 10 to 12 million keys a CPU-second where it could do 28 to
37. Zen 5 and Intel's processors compress fast, and Zen 3 has no AVX-512: nothing changes there.

numpy chooses when it is loaded, by NPY_DISABLE_CPU_FEATURES. So `import drum` sets that, in time if numpy was not
loaded before; processes begun later inherit it. A name in there that a build of numpy does not choose by is a warning,
one that it takes for granted ends the import, and names have changed (X86_V4 since numpy 2.4): therefore the build is
asked. This module loads neither numpy nor anything of drum.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

DISABLE, ENABLE = "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"
KEEP = "DRUM_KEEP_AVX512"
"""Set to anything but nothing, it leaves numpy as it is."""
CPUINFO = "/proc/cpuinfo"
SORTS = ("X86_V4", "AVX512_SKX")
"""What the AVX-512 sort of 32 and 64 bits is dispatched by, since numpy 2.4 and before."""
_ZEN_3_AND_4 = "25"
_VALUE_BYTES_MAX = 1000  # numpy refuses more than 1,024
_DISPATCHED = re.compile(rb"dispatched optimizations\n\(([A-Z0-9_ ]*)\)")  # of a message in numpy's library


def sorts_slowly(cpuinfo: str) -> bool:
    """Whether AVX-512 sorts slower than AVX2 on the processor that /proc/cpuinfo describes: Zen 4 in all its kinds."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    said = {name.strip(): value.strip() for name, _, value in lines}
    amd = said.get("vendor_id") == "AuthenticAMD"
    return amd and said.get("cpu family") == _ZEN_3_AND_4 and "avx512f" in said.get("flags", "").split()


def setting(dispatched: Iterable[str], environ: Mapping[str, str]) -> str | None:
    """What NPY_DISABLE_CPU_FEATURES should be for a numpy that dispatches by those features; None: as it is. What the
    user has set stays in it, and numpy accepts it together with that."""
    if environ.get(KEEP) or ENABLE in environ:  # with both set numpy cannot be imported
        return None
    given = environ.get(DISABLE, "")
    more = [name for name in SORTS if name in dispatched and name not in re.split(r"[,\s]+", given)]
    value = " ".join([given, *more]) if given else " ".join(more)
    return value if more and len(value.encode()) <= _VALUE_BYTES_MAX else None


def dispatched_by_numpy() -> list[str]:
    """The features that the numpy which would be imported can be told to do without, from its library's own list;
    nothing where it has none. Takes some 10 ms."""
    spec = importlib.util.find_spec("numpy")
    for place in spec.submodule_search_locations or [] if spec else []:
        for library in Path(place, "_core").glob("_multiarray_umath*.so"):
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                found = _DISPATCHED.search(content)
                return found[1].decode().split() if found else []
    return []


def prefer_fast_sort() -> None:
    """Have numpy, when it is loaded, sort by AVX2 where AVX-512 is slower. `import drum` calls it. Once numpy is loaded
    it changes nothing. Never an error: what cannot be found out stays as it is."""
    if "numpy" in sys.modules:
        return
    try:
        with open(CPUINFO, errors="replace") as file:
            first = "".join(takewhile(str.strip, file))  # all are alike, and the kernel takes its time for each
        value = setting(dispatched_by_numpy(), os.environ) if sorts_slowly(first) else None
    except (OSError, ValueError):  # no Linux; an empty library; a module that says no more where it came from
        return
    if value is not None:
        os.environ[DISABLE] = value
