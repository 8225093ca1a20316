"""What holds for all tests: property tests judge no speed, and on CI they try the same examples every time.

A person's run draws new examples, which is how bugs are found; a run that decides whether a change may land must not
fail for a bug it did not bring. HYPOTHESIS_PROFILE=deep tries twenty times as many.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("person", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "person"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: one process more than there are cores, for some tests wait for a real crawl."""
    return len(os.sched_getaffinity(0)) + 1
