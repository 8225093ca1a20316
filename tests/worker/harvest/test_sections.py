"""Every harvest has the same sections, whether a worker, the seeds or a repair wrote it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drum import Files
from drum.segment import Segment
from drum.spill import Spill

import numpy as np
import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried
from irlcrawl.config.keys import Config
from irlcrawl.crawl.seeding import write_harvest, write_seeds
from irlcrawl.crawl.seeds import read_seeds
from irlcrawl.frontier.state.crawl_state import SEEDS_STREAM, CrawlState
from irlcrawl.upkeep.rebuild import Harvests
from irlcrawl.worker.harvest.builder import HarvestBuilder, UnitRows, harvest_name
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import SECTIONS

URL = b"http://a.test/"


def of_seeds(state: CrawlState, _: Path) -> str:
    return write_seeds(state, state.config, read_seeds(urls=[URL.decode()]), 0)


def of_repair(state: CrawlState, tmp_path: Path) -> str:
    harvests = Harvests(state, Spill(str(tmp_path), "known", np.dtype([("key", "<u8")]), 1))
    harvests.add(URL, Carried(), Context(state.config, state.seed, state.scope))
    harvests.close()
    return harvest_name(SEEDS_STREAM, 0)


def of_worker(state: CrawlState, _: Path) -> str:
    builder = HarvestBuilder(state.files, state.dir, SEEDS_STREAM, state.clock)
    builder.add(UnitRows((NO_SEGMENT, 0, 0, 0, Class.NONE, Reason.OK, 200, 0, b"a line")))
    return builder.write((0, 1)) or ""


def test_a_seed_opens_what_links_to_it_lead_to(tmp_path: Path) -> None:
    """With `path_case` merged, a crawl of http://a.test/Docs/ had no page but its seed."""
    config = Config()
    config.crawl.user_agent, config.scope.kind, config.urls.merge = "Testbot/1.0", "prefix", ["path_case"]
    path = tmp_path / "seeds"
    write_harvest(Files(), str(path), 0, config, 1, [b"http://a.test/Docs/", b"http://a.test/docs/"])
    (scope,) = Segment.open(Files(), path).sections["scope"].scan()
    assert scope["entry"].tolist() == [b"prefix a.test/Docs/", b"prefix a.test/docs/"]


@pytest.mark.parametrize("write", [of_seeds, of_repair, of_worker])
def test_every_section_is_there_with_its_columns(tmp_path: Path, write: Callable[[CrawlState, Path], str]) -> None:
    job = JobDir(tmp_path / "job")
    job.acquire()
    config = Config()
    config.crawl.user_agent = "test/1 (+http://contact.test/)"
    state = CrawlState.open(job, config, VirtualClock())
    try:
        segment = Segment.open(Files(), Path(state.dir) / write(state, tmp_path))
        assert {name: section.schema for name, section in segment.sections.items()} == SECTIONS
        meta = segment.sections["outcomes"].meta
        assert (meta["stream"], meta["number"]) == (SEEDS_STREAM, 0) and set(meta) >= {"warc", "counters"}
    finally:
        state.close()
        job.release()
