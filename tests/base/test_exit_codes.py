"""A full disk is told from other errors in one place."""

from __future__ import annotations

import errno
from pathlib import Path

from irlcrawl.base.exit_codes import is_disk_full

ROOT = Path(__file__).parents[2]


def test_a_full_disk_or_quota_is_one_and_nothing_else_is() -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "full")) and is_disk_full(OSError(errno.EDQUOT, "quota"))
    assert not any(map(is_disk_full, (OSError(errno.EIO, "io"), OSError(), ValueError(), KeyboardInterrupt())))


def test_no_other_file_asks_an_error_for_it() -> None:
    asks = [
        str(path.relative_to(ROOT))
        for package in ("drum", "budgets", "irlcrawl", "tools", "bench")
        for path in (ROOT / package).rglob("*.py")
        if "ENOSPC" in path.read_text()
    ]
    assert asks == ["irlcrawl/base/exit_codes.py"]
