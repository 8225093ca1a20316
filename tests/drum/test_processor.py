"""On AMD's Zen 4 numpy is told to sort by AVX2, in time and so that it accepts it; elsewhere nothing is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from drum import processor

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

AVX512 = "avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx512_bf16 avx512vbmi avx512_vbmi2 avx512_vnni"


def x86(vendor: str, family: int, model: int, name: str, flags: str) -> str:
    """What Linux says of two processors, as far as it matters."""
    one = (
        f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: {name}\nstepping\t: 1\n"
        f"cpu MHz\t\t: 2400.000\nflags\t\t: fpu vme sse sse2 ssse3 fma sse4_1 sse4_2 popcnt avx f16c avx2 {flags}\n"
        "bugs\t\t: spectre_v1\naddress sizes\t: 48 bits physical, 48 bits virtual\npower management:\n\n"
    )
    return "".join(f"processor\t: {number}\n{one}" for number in range(2))


ZEN_4 = x86("AuthenticAMD", 25, 17, "AMD EPYC 9654 96-Core Processor", f"{AVX512} vaes")
ARM = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd40

"""
NUMPY_22 = ["FMA3", "AVX2", "AVX512F", "AVX512CD", "AVX512_KNL", "AVX512_SKX", "AVX512_ICL"]
NUMPY_24 = ["X86_V3", "X86_V4", "AVX512_ICL", "AVX512_SPR"]


@pytest.mark.parametrize(
    ("cpuinfo", "slowly"),
    [
        (x86("AuthenticAMD", 25, 1, "AMD EPYC 7763 64-Core Processor", "vaes vpclmulqdq"), False),  # Zen 3
        (x86("AuthenticAMD", 25, 33, "AMD Ryzen 9 5950X 16-Core Processor", "vaes vpclmulqdq"), False),
        (ZEN_4, True),
        (x86("AuthenticAMD", 25, 97, "AMD Ryzen 9 7950X 16-Core Processor", AVX512), True),
        (x86("AuthenticAMD", 25, 160, "AMD EPYC 9754 128-Core Processor", AVX512), True),  # Zen 4c
        (x86("AuthenticAMD", 25, 17, "AMD EPYC", ""), False),  # Zen 4 in a machine that hides it
        (x86("AuthenticAMD", 26, 2, "AMD EPYC 9755 128-Core Processor", f"{AVX512} avx512_vp2intersect"), False),
        (x86("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+", f"{AVX512} avx512_fp16 amx_tile"), False),
        (ARM, False),
        ("", False),
        ("vendor_id\ncpu family: 25\n:\n\n", False),
    ],
)
def test_zen_4_alone_sorts_slowly_with_avx512(cpuinfo: str, slowly: bool) -> None:
    assert processor.sorts_slowly(cpuinfo) == slowly


@pytest.mark.parametrize(
    ("dispatched", "environ", "value"),
    [
        (NUMPY_24, {}, "X86_V4"),
        (NUMPY_22, {}, "AVX512_SKX"),
        (["AVX512_SPR"], {}, None),  # built for this processor: that it has AVX-512 is taken for granted
        ([], {}, None),
        (NUMPY_24, {"NPY_DISABLE_CPU_FEATURES": "AVX512_SPR,AVX512_ICL"}, "AVX512_SPR,AVX512_ICL X86_V4"),
        (NUMPY_24, {"NPY_DISABLE_CPU_FEATURES": "AVX512_SPR, X86_V4"}, None),
        (NUMPY_24, {"NPY_DISABLE_CPU_FEATURES": "X" * 1000}, None),
        (NUMPY_24, {"NPY_ENABLE_CPU_FEATURES": "X86_V3"}, None),
        (NUMPY_24, {"DRUM_KEEP_AVX512": "1"}, None),
        (NUMPY_24, {"DRUM_KEEP_AVX512": ""}, "X86_V4"),
    ],
)
def test_what_the_user_has_set_stays(dispatched: list[str], environ: dict[str, str], value: str | None) -> None:
    assert processor.setting(dispatched, environ) == value


def test_the_library_of_numpy_is_read_as_numpy_itself_says() -> None:
    assert processor.dispatched_by_numpy() == __cpu_dispatch__


def test_a_numpy_that_is_not_there_or_says_nothing_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy" / "_core").mkdir(parents=True)
    library = tmp_path / "numpy" / "_core" / "_multiarray_umath.so"
    library.write_bytes(b"\x7fELF")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "numpy")
    assert processor.dispatched_by_numpy() == []
    monkeypatch.setattr(processor, "sorts_slowly", lambda cpuinfo: True)
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    library.write_bytes(b"")
    processor.prefer_fast_sort()
    library.unlink()
    processor.prefer_fast_sort()
    assert "NPY_DISABLE_CPU_FEATURES" not in os.environ


# -- programs, on a machine that says it is one of Zen 4 --------------------------------------------------------------

PRETEND = """
import builtins, io, os, sys
real = builtins.open
said = {cpuinfo!r}
builtins.open = lambda file, *args, **more: io.StringIO(said) if file == "/proc/cpuinfo" else real(file, *args, **more)
"""
ASK = """
from numpy._core._multiarray_umath import __cpu_features__
print(",".join(name for name in ("X86_V4", "AVX512_SKX") if __cpu_features__[name]) or "avx2",
      os.environ.get("NPY_DISABLE_CPU_FEATURES"))
"""
NAME = next((name for name in processor.SORTS if name in __cpu_dispatch__), "")
UNCHANGED = ",".join(name for name in ("X86_V4", "AVX512_SKX") if __cpu_features__[name])
needs_avx512 = pytest.mark.skipif(
    not NAME or not __cpu_features__[NAME], reason="this processor has no AVX-512, or NPY_DISABLE_CPU_FEATURES hides it"
)


def sorts_by(code: str, cpuinfo: str = ZEN_4, **environ: str) -> list[str]:
    """(features numpy sorts by, NPY_DISABLE_CPU_FEATURES) after the code, in a process in which warnings are errors."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("NPY_", "DRUM_"))}
    script = PRETEND.format(cpuinfo=cpuinfo) + code + ASK
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", script],
        env=mine | environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()[-1].split(" ", 1)


@needs_avx512
@pytest.mark.parametrize(
    "code",
    [
        "import drum",
        "from drum import Drum",
        "import tools.dedupe",
        "import bench.__main__, bench.budgets",
    ],
)
def test_programs_on_zen_4_sort_by_avx2(code: str) -> None:
    by, value = sorts_by(code)
    assert value == NAME and NAME not in by.split(",")


@needs_avx512
def test_a_crawl_and_fsck_on_zen_4_sort_by_avx2(tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    settings = "crawl.workers=1", "politeness.retries_max=0", "crawl.user_agent=test (+https://example.org/)"
    crawl = ["crawl", job, "http://127.0.0.1:1/", "--quiet", *(word for one in settings for word in ("-s", one))]
    for words, ends in (crawl, 16), (["fsck", job], 0):  # 16: no page was had
        code = f"from irlcrawl.__main__ import main\nsys.argv = ['irlcrawl', *{words!r}]\nassert main() == {ends}\n"
        by, value = sorts_by(code)
        assert value == NAME and NAME not in by.split(","), words[0]


@needs_avx512
@pytest.mark.parametrize(
    ("code", "cpuinfo", "environ"),
    [
        ("import drum", x86("AuthenticAMD", 26, 2, "AMD EPYC 9755", AVX512), {}),
        ("import drum", x86("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+", AVX512), {}),
        ("import drum", ZEN_4, {"DRUM_KEEP_AVX512": "1"}),
        ("import numpy, drum", ZEN_4, {}),  # too late: as README.md says
    ],
)
def test_elsewhere_numpy_is_left_as_it_is(code: str, cpuinfo: str, environ: dict[str, str]) -> None:
    assert sorts_by(code, cpuinfo, **environ) == [UNCHANGED, "None"]


@needs_avx512
def test_features_the_user_enables_alone_are_not_forbidden_again() -> None:
    by, value = sorts_by("import drum", NPY_ENABLE_CPU_FEATURES=NAME)
    assert NAME in by.split(",") and value == "None"
