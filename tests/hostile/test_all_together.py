"""All hostile servers at once, beside good hosts. Here it is short, and asserts what any machine keeps; the ten minutes
in which good hosts must keep 90% of their rate are run by name (all_together.py)."""

from __future__ import annotations

from pathlib import Path

from tests.hostile import all_together


def test_beside_four_hosts_with_pages_of_tags_a_good_host_got_no_request_any_more(tmp_path: Path) -> None:
    seen = all_together.run(tmp_path, 13.0)
    assert seen.hostile > 20
    assert len(seen.windows) == 1 and seen.worst > 0.5
    assert seen.memory <= all_together.MEMORY_BYTES_MAX
