"""A column of a link row is added in base/rows.py: all that passes rows on takes it along without being told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from irlcrawl.base.rows import CARRIED, LINK, Carried

CRAWL = """
import importlib.util, json, sys
from pathlib import Path

spec = importlib.util.find_spec("irlcrawl.base.rows")  # with one more column, before anything has imported it
source = Path(spec.origin).read_text()
for old, new in (
    ('    "attempt": "u1",', '    "mark": "u4",\\n    "attempt": "u1",'),
    ("    attempt: int = 0\\n", "    mark: int = 0\\n    attempt: int = 0\\n"),
):
    assert source.count(old) == 1, old
    source = source.replace(old, new)
rows = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = rows
exec(compile(source, spec.origin, "exec"), rows.__dict__)

import pytest
from drum import Files
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.repair import repair
from irlcrawl.worker.archive import redo
from irlcrawl.worker.harvest import process
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web
from tests.upkeep.conftest import save_config

AGAIN = "http://a.test/again"
asked = []


def mood(url, now):
    asked.append(url)
    return Answer(status=500) if url == AGAIN and asked.count(AGAIN) <= 2 else None


web = Web({"http://a.test/": [AGAIN]})
web.moods["a.test"] = mood
path = Path(sys.argv[1])
with pytest.MonkeyPatch.context() as patch:
    crawl = Crawl(path, web, ["http://a.test/"], patch)
    crawl.on_request = lambda url: url == AGAIN and asked.count(AGAIN) == 2 and crawl.kill()
    with patch.context() as filled, pytest.raises(Killed):
        mark = {"mark": int(sys.argv[2])}
        filled.setattr(process, "Carried", lambda *known, **more: rows.Carried(*known, **more, **mark))
        crawl.run()
    crawl.on_request = lambda url: None
    job = save_config(crawl)
    job.acquire()
    list(repair(job, set(), crawl.clock, Bar()))
    job.release()
    crawl.run()
print(json.dumps([
    (unit.url.decode(), unit.carried.attempt, unit.carried.mark)
    for stream in redo.streams(Files(), str(path / "warcs"))
    for unit, _, _ in redo.units(Files(), str(path / "warcs"), stream)
    if not unit.url.endswith(b"robots.txt")
]))
"""


def test_what_is_carried_is_in_every_link_row_in_one_order() -> None:
    assert tuple(CARRIED) == Carried._fields
    assert [*LINK] == ["key", "site", "host", *CARRIED, "url"]


def test_a_new_column_reaches_archives_retries_and_repaired_crawls(tmp_path: Path) -> None:
    """Queue, run, lease, unit, retry, calendar; then a kill, a repair out of sections, and all of it again."""
    mark = 4_000_000_007
    command = [sys.executable, "-c", CRAWL, str(tmp_path / "job"), str(mark)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (*seed, _), *asked = json.loads(done.stdout)
    assert seed == ["http://a.test/", 0] and {tuple(each[:1]) for each in asked} == {("http://a.test/again",)}
    assert max(attempt for _, attempt, _ in asked) == 2 and [each[-1] for each in asked] == [mark] * len(asked)
