"""Verbs that steer a crawl: what they say, and what they ask of one that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl import journal
from irlcrawl.crawl.returns import TAKEN
from tests.cli.conftest import Run
from tests.crawl.test_control import serving
from tests.crawl.virtual_crawl import Crawl, Web


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """A crawl that was done, with its configuration."""
    from irlcrawl.config.toml import CONFIG_HEADER, to_toml

    crawl = Crawl(tmp_path / "job", Web({"http://a.test/": []}), ["http://a.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    JobDir(crawl.path).write_config(CONFIG_HEADER + to_toml(crawl.config))
    return crawl


def test_a_verb_says_what_it_changed_and_what_to_do_next(ended: Crawl, run: Run) -> None:
    job = ended.path
    assert run("block", job, "example.org") == (
        0,
        f'site."example.org".block was not set, now true\ngo on:     irlcrawl resume {job}\n'
        "nothing more is requested of it; URLs that wait are excluded (blocked), and links to it from now on, too\n",
        "",
    )
    assert run("block", job, "example.org")[1] == "nothing changed: it was so already\n"
    assert run("set", job)[1] == "irlcrawl.toml is read when the crawl goes on\n", "it said that nothing changed"
    code, out, _ = run("unblock", job, "example.org")
    assert code == 0 and f"irlcrawl retry {job} --reason blocked --host example.org" in out
    code, out, err = run("set", job, "politeness.gap_host_secs=1")
    assert (code, out) == (ExitCode.CONFIG, "") and "did you mean politeness.gap_host_seconds?" in err
    assert run("pause", job)[0] == 0 and "the whole crawl since" in run("status", job)[1]
    code, out, _ = run("report", job, "--steering", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["verb"] for one in told] == ["block", "block", "reload", "unblock", "set", "pause"]
    assert told[1]["result"] == "nothing changed" and told[4]["result"].startswith(
        "refused: -s politeness.gap_host_secs"
    )
    assert run("report", job, "--steering", "--top", "1")[1].count("\n") == 1
    run("set", job, "revisit.enabled=true")
    assert run("block", job, "b.example")[1].endswith("pages that were visited stay, and are not visited meanwhile\n")


def test_resume_ends_a_pause_of_the_whole_crawl(ended: Crawl, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("irlcrawl.crawl.start.run_crawl", lambda job, config, *_, **__: calls.append(config) or 0)
    monkeypatch.setattr("irlcrawl.cli.verbs_crawl._log_to", lambda *_: None)
    run("pause", ended.path)
    assert run("crawl", ended.path)[0] == 0 and calls[-1].crawl.pause
    assert run("resume", ended.path)[0] == 0 and not calls[-1].crawl.pause


def test_a_pause_that_a_start_ended_was_told_for_ever(ended: Crawl, run: Run) -> None:
    """And the next one had its time, and the name of the person who had paused then."""
    ended.web.page("http://a.test/", ["http://a.test/new"])
    assert f"go on:     irlcrawl crawl {ended.path}\n" in run("pause", ended.path)[1], "`resume` would end it"
    assert "paused    the whole crawl since" in run("status", ended.path)[1]
    ended.config.crawl.pause = False
    ended.seeds.append("http://b.test/")
    assert ended.run() == ExitCode.DONE
    assert "paused" not in run("status", ended.path)[1]


def test_a_running_crawl_is_handed_seeds_by_crawl_and_by_seeds(ended: Crawl, run: Run, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    (tmp_path / "list").write_text("".join(f"http://s{number}.test/\n" for number in range(100_000)))

    def take(request: dict[str, Any]) -> str:
        asked.append(request)
        return TAKEN

    answers = {"status": lambda _: {}, "hand_in": take}
    with serving(JobDir(ended.path).socket, answers):
        code, out, err = run("crawl", ended.path, "http://b.test/")
        assert (code, err) == (0, "") and out.startswith("handed 1 seed to the crawl that runs; see irlcrawl status")
        assert run("seeds", ended.path, "--seeds", tmp_path / "list")[0] == 0
        code, _, err = run("crawl", ended.path, "http://b.test/", "-s", "limits.pages=3")
        assert code == ExitCode.LOCKED and "irlcrawl set" in err and "limits.pages was 0, now 3" in err
    assert [one["result"] for one in asked] == [
        "1 seed, 0 of them to be asked again", "100,000 seeds, 0 of them to be asked again",
    ]  # fmt: skip


def test_resume_of_a_paused_crawl_that_ran_was_refused_as_a_change_of_crawl_pause(ended: Crawl, run: Run) -> None:
    asked: list[dict[str, Any]] = []
    run("pause", ended.path)
    answers = {"status": lambda _: {}, "hand_in": lambda _: TAKEN, "steer": take_steer(asked)}
    with serving(JobDir(ended.path).socket, answers):
        code, _, err = run("crawl", ended.path)
        assert code == ExitCode.LOCKED and "is paused" in err and f"irlcrawl unpause {ended.path}" in err
        assert run("resume", ended.path)[:2] == (
            0, "crawl.pause was true, now false\nthe crawl goes on with it within seconds\n",
        )  # fmt: skip
        assert run("resume", ended.path, "http://b.test/")[1].startswith("handed 1 seed"), "and its pause ends"
    assert [(one["verb"], one["by"]) for one in asked] == [("unpause", journal.user_name())] * 2


def test_unpause_of_all_did_not_say_that_a_host_is_still_paused(ended: Crawl, run: Run) -> None:
    run("pause", ended.path, "a.test")
    run("pause", ended.path)
    assert "still paused: a.test (unpause takes their names, too)" in run("unpause", ended.path)[1]
    assert "still paused" not in run("unpause", ended.path, "a.test")[1]


def take_steer(asked: list[dict[str, Any]]) -> Any:
    def steer(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"changed": ["crawl.pause was true, now false"], "hints": []}

    return steer


def test_seeds_for_a_crawl_that_does_not_run_are_taken_by_its_next_start(ended: Crawl, run: Run) -> None:
    code, out, _ = run("seeds", ended.path, "http://b.test/")
    assert code == 0 and out == f"1 seed for the next start\ngo on:     irlcrawl resume {ended.path}\n"
    ended.web.page("http://b.test/")
    assert ended.run() == ExitCode.DONE
    assert ended.outcomes()["http://b.test/"] == ("fetched", "ok")
    assert journal.read(JobDir(ended.path))[-1].verb == "seeds"
    assert load_stored(JobDir(ended.path).config_file).crawl.user_agent


def test_what_a_running_crawl_refuses_has_the_code_of_a_start(ended: Crawl, run: Run) -> None:
    with serving(JobDir(ended.path).socket, {"status": lambda _: {}, "steer": lambda _: {"refused": "no such key"}}):
        assert run("set", ended.path, "a.b=1") == (ExitCode.CONFIG, "", "irlcrawl: no such key\n")
