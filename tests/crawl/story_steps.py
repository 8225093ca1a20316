"""What may happen between two runs of a story (story.py), and within one: questions, exports, snapshots, steering,
takedowns, rounds, damage and repair, time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from pathlib import Path

from drum import Files

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import returns_name
from irlcrawl.cli import main
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl.returns import TAKEN, Drawing, Selection, write
from irlcrawl.crawl.seeding import write_harvest
from irlcrawl.frontier.state import formats
from irlcrawl.upkeep import snapshot as shots
from tests.crawl.story import Step, Story
from tests.crawl.varied_web import SEED
from tests.crawl.virtual_crawl import Killed

# -- what may come between two runs ------------------------------------------------------------------------------------


def ask(story: Story) -> None:
    for words in (
        ["status"], ["status", "--json"], ["inspect"], ["urls"], ["urls", "--status", "queued"],
        ["urls", "--status", "retry"], ["urls", "--site", "a.test"], ["urls", "--host", "one.test"],
        ["urls", "--status", "queued", "--with", "rest"],
        ["why", SEED], ["why", "one.test"], ["why", "a.test"], ["why", "--slow"], ["why", "http://odd.test/never"],
        ["report"], ["report", "--by", "spent"], ["report", "--freshness"], ["report", "--steering"], ["config"],
    ):  # fmt: skip
        story.verb(*words)
    story.verb("report", "--politeness", codes=(0, 1) if story.damaged else (0,))
    json.loads(story.verb("status", "--json"))
    for url in story.draw.sample(sorted(story.web.pages), 5):
        archived(story, url)


def archived(story: Story, url: str) -> None:
    """What `get` gives is what the server sent at some time."""
    try:
        body = get(story.crawl.path, url)
    except Unavailable:
        return
    assert not body or body in story.web.said[url], f"{url}: {body[:200]!r}"


def export(story: Story) -> None:
    for what in ("cdxj", "pages", "links", "listed", "hosts", "graph", "wacz"):
        path = story.crawl.path.with_name(f"export-{what}")
        if what in ("cdxj", "hosts", "wacz"):
            path.unlink(missing_ok=True)
        words = ["export", what, str(story.crawl.path), "-o", str(path), "--quiet"]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.main(words + ([] if what == "hosts" else ["--jobs", "1"]))
        assert code == 0, f"{what}: {code} {err.getvalue()}"


def snapshot(story: Story) -> None:
    name = f"s{len(story.told)}"
    story.verb("snapshot", name)
    found = story.damages(JobDir(story.crawl.job().snapshots / name))
    assert not found, "\n".join(found)
    story.check_log(JobDir(story.crawl.job().snapshots / name))
    if story.draw.random() < 0.3:  # it goes on as that crawl did
        story.verb("snapshots", "--open", name, f"{story.crawl.path}-{name}")
        opened = JobDir(Path(f"{story.crawl.path}-{name}"))
        assert not (found := story.damages(opened)), "\n".join(found)
        if story.draw.random() < 0.3 and not story.lists:
            story.say("  goes on from the snapshot")
            shutil.rmtree(story.crawl.path)
            opened.path.rename(story.crawl.path)
            story.known.again |= {url.encode() for url in story.known_urls()}
            story.kills += 100  # what was asked since is asked again


def steer(story: Story) -> None:
    draw = story.draw
    host = draw.choice(["one.test", "a.test", "b.a.test", "odd.test", "cdn.test"])
    for words in draw.sample(
        [
            ["block", host], ["unblock", host], ["pause", host], ["unpause", host], ["block", "--pattern", "/[3]/$"],
            ["unblock", "--pattern", "/[3]/$"], ["prefer", host, "--weight", "3"], ["prefer", host, "--off"],
            ["retry"], ["retry", "--reason", "blocked"], ["retry", "--status", "4xx", "--status", "5xx"],
            ["retry", "--reason", "withheld", "--reason", "opted_out"], ["set", "revisit.enabled=true"],
            ["revisit", host], ["revisit", "--match", "/1/"], ["revisit", "--earlier"], ["set", "page.requisites=true"],
            ["set", f'site."{host}".pages_max=3'], ["set", f'site."{host}".bytes_per_second=1000'],
            ["set", f'site."{host}".hours="02:00-03:00, 10:00-24:00"'], ["set", f'site."{host}".gap_host_seconds=3'],
            ["seeds", "http://late.test/extra", f"http://{host}/"], ["seeds", "http://one.test/private/1"],
            ["set", f'site."{host}".types=["text/*"]'],
        ], 3,
    ):  # fmt: skip
        story.say(f"  {' '.join(words)}")
        story.verb(*words, codes=(0, 1, 4))
        if words[0] in ("retry", "seeds"):
            story.web.known |= {"http://late.test/extra"}
            story.put_back()


def opt_out(story: Story) -> None:
    line = story.draw.choice(["host one.test", "site a.test", "match /2/$", "url http://odd.test/gone", ""])
    story.opt_out_file.write_text(f"{line} 2026-11-02 by mail\n" if line else "")
    story.say(f"  {line}")


def take_down(story: Story) -> None:
    if story.killed():
        return
    words = story.draw.choice(
        [["--host", "one.test"], ["http://www.a.test/1/"], ["--match", "/3/$"], ["--site", "a.test"]]
    )
    story.verb("takedown", *words, "--reason", "by mail", "--quiet", codes=(0, 1))
    story.whole()
    if words[0].startswith("http") and not story.code:  # 1: killed, or an archive is away
        with contextlib.suppress(Unavailable):
            get(story.crawl.path, words[0])
            raise AssertionError(f"{words[0]} is there still")


def fetch_a_round(story: Story) -> None:
    crawl, draw = story.crawl, story.draw
    crawl.config = story.config = load_stored(crawl.job().config_file)
    crawl.on_request = lambda url: None
    made = crawl.generate(urls=draw.choice([3, 30]), per_host=draw.choice([0, 2]), lists=draw.choice([1, 3]))
    story.say(f"  {len(made)} lists")
    names = []
    for each in made:
        story.lists += 1
        name = f"round{story.lists}"
        left = draw.choice([None, draw.randrange(10)])

        def on_request(url: str) -> None:
            nonlocal left
            left = None if left is None else left - 1
            if left == 0:
                crawl.kill()

        crawl.on_request = on_request
        try:
            crawl.fetch(each, name)
        except Killed:
            story.kills += 1
            story.may_come_again()
            if draw.random() < 0.5:
                left = None
                crawl.fetch(each, name)
        names.append(name)
    crawl.on_request = lambda url: None
    if names and draw.random() < 0.9:
        crawl.update(*draw.sample(names, len(names)))
        if draw.random() < 0.3:
            crawl.update(*names)
    elif names:  # it never comes back: what was fetched is fetched again
        story.put_back()
        story.kills += 100
    story.check_requests()
    story.whole()


def damage(story: Story) -> None:
    """A file is gone, or a byte of it is wrong: nothing depends on it, or fsck finds it and a repair mends it."""
    job, draw = story.crawl.job(), story.draw
    files = [path for where in (job.state, job.logs) for path in sorted(where.rglob("*")) if path.is_file()]
    path = draw.choice([*files, job.config_file])
    story.say(f"  {path.name}")
    if draw.random() < 0.6 or path == job.config_file:  # a byte of it may be an edit
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        if data:
            data[draw.randrange(len(data))] ^= 0x55
        path.write_bytes(data)
    out = story.verb("fsck", "--repair", "--quiet", codes=(0,))
    story.say(f"  {out.strip().splitlines()[-1]}")
    story.damaged = True
    story.known.again |= {url.encode() for url in story.known_urls()}
    story.kills += 100
    story.whole()


def away(story: Story) -> None:
    """The operator moves a closed archive."""
    closed = [path for path in sorted(story.crawl.job().warcs.iterdir()) if path.suffix != ".open"]
    if closed and not story.killed():
        story.draw.choice(closed).unlink()


def later(story: Story) -> None:
    story.crawl.clock.advance(story.draw.choice([0.3, 100.0, 4000.0, 90_000.0]))


def clear(story: Story) -> None:
    """Pauses and blocks are lifted."""
    config = load_stored(story.crawl.job().config_file)
    for name, site in config.site.items():
        if site.pause:
            story.verb("unpause", name)
        if site.block:
            story.verb("unblock", name)


BETWEEN: list[tuple[str, Step]] = [
    ("ask", ask), ("export", export), ("snapshot", snapshot), ("steer", steer), ("steer", steer), ("opt out", opt_out),
    ("takedown", take_down), ("round", fetch_a_round), ("later", later), ("later", later), ("clear", clear),
    ("clear", clear),
    ("damage", damage), ("away", away),
]  # fmt: skip


# -- what may come while it runs ---------------------------------------------------------------------------------------


def snapshot_inside(story: Story) -> None:
    name = f"i{len(story.told)}"
    story.say(f"  snapshot {name} while it runs")
    taken = shots.take(story.crawl.job(), name)
    found = story.damages(JobDir(taken.path))
    assert not found, "\n".join(found)


def retry_inside(story: Story) -> None:
    crawl, job = story.crawl, story.crawl.job()
    catalog = formats.look(job.state)
    drawing = Drawing(job, catalog, Files(), Selection(statuses=("4xx", "5xx", "failed")))
    path = job.state / returns_name(os.getpid())
    if write(Files(), str(path), drawing.number, drawing.rows(story.config)):
        assert crawl.loop is not None
        taken = crawl.loop.hand_in(path.name)
        path.unlink(missing_ok=True)
        story.say(f"  retry while it runs: {taken}")
        story.put_back()


def seeds_inside(story: Story) -> None:
    crawl, job = story.crawl, story.crawl.job()
    catalog = formats.look(job.state)
    if catalog.get("crawl") is None:
        return
    drawing = Drawing(job, catalog, Files(), Selection())
    path, urls = job.state / returns_name(os.getpid()), [b"http://late.test/extra", b"http://b.a.test/2/"]
    story.web.known |= {"http://late.test/extra"}
    write_harvest(Files(), str(path), drawing.number, story.config, catalog.get("crawl")["seed"], urls)
    assert crawl.loop is not None
    story.say(f"  seeds while it runs: {crawl.loop.hand_in(path.name) == TAKEN}")
    path.unlink(missing_ok=True)


def ask_inside(story: Story) -> None:
    for words in (
        ["urls"],
        ["urls", "--status", "queued"],
        ["why", SEED],
        ["why", "one.test"],
        ["report"],
        ["inspect"],
    ):
        story.verb(*words)


INSIDE: list[Step] = [snapshot_inside, retry_inside, seeds_inside, ask_inside]
