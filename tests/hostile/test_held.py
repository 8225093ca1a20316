"""What one page holds a worker's loop for is measured by name (held.py); here, that it measures what a worker does."""

from __future__ import annotations

from pathlib import Path

from tests.hostile import held
from tests.hostile.test_what_servers_send import LINK
from tests.worker.fetch.loopback import response


def test_each_piece_of_work_on_an_answer_is_timed(tmp_path: Path) -> None:
    loop = held.Loop(tmp_path, requisites=True)
    watch = loop.page(response(LINK))
    assert list(watch.longest) == ["unpacked", "wishes", "read", "archived", "harvested"]
    assert 0 < max(watch.longest.values()) <= watch.total
    assert list(loop.rules(response(b"User-agent: *\nDisallow: /")).longest) == [
            "unpacked", "read", "sitemaps", "asked",
        ]  # fmt: skip
