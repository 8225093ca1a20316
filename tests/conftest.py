"""What holds for all tests: property tests judge no speed, and on CI they try the same examples every time.

A person's run draws new examples, which is how bugs are found; a run that decides whether a change may land must not
fail for a bug it did not bring. HYPOTHESIS_PROFILE=deep tries twenty times as many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("person", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "person"))


@pytest.fixture(autouse=True, scope="session")
def _commands_allowed_in_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests allow (config/commands.py) is remembered nowhere else; crawls in other processes inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: one process more than there are cores, for some tests wait for a real crawl."""
    return len(os.sched_getaffinity(0)) + 1
