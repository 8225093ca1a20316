"""What holds for all tests: property tests judge no speed, and on CI they try the same examples every time.

A person's run draws new examples, which is how bugs are found; a run that decides whether a change may land must not
fail for a bug it did not bring. HYPOTHESIS_PROFILE=deep tries twenty times as many.

Files of tests are in memory where there is room for them: a thousand small crawls make, sync and delete files a
hundred thousand times, which was a quarter of the suite's CPU time, and no test asks what a disk did. TMPDIR chooses
another place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_BYTES_MIN = 4 << 30
"""Free there, or tests keep their files in the directory for temporary files: containers may have 64 MiB."""

settings.register_profile("person", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "person"))

if (
    "TMPDIR" not in os.environ
    and os.access(SHARED_MEMORY, os.W_OK)
    and shutil.disk_usage(SHARED_MEMORY).free >= SHARED_MEMORY_BYTES_MIN
):
    os.environ["TMPDIR"] = os.fspath(SHARED_MEMORY)
    tempfile.tempdir = None  # or what was asked before would hold


@pytest.fixture(autouse=True, scope="session")
def _commands_allowed_in_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests allow (config/commands.py) is remembered nowhere else; crawls in other processes inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: one process more than there are cores, for some tests wait for a real crawl."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes that are no text by their argument. A gzip holds the second it was made in: the two processes of a
    run, each of which makes its own, then knew tests of different names, and ran none."""
    return argname if isinstance(val, bytes) and any(byte < 32 for byte in val) and not val.isspace() else None
