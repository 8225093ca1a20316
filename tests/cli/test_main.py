"""The command line as a person or a job runner meets it: exit codes, messages, and nothing touched when refused.

`run_crawl` is a stand-in here; tests/web runs the real one.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from drum import Catalog

import pytest

from irlcrawl.base import job
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main, verbs_crawl
from irlcrawl.config import keys as config
from irlcrawl.config.checks import USER_AGENT_EXAMPLE
from irlcrawl.config.keys import keys
from irlcrawl.config.signing_key import KEY_FILE, make
from irlcrawl.config.toml import from_dict, load, to_toml
from irlcrawl.crawl import status as status_record
from tests.cli.conftest import REPOSITORY, Run, tree
from tools.sampleweb.tls import authority

AGENT = "TestCrawler/1.0 (+https://crawler.example.org/; me@example.org)"


class FakeCrawl:
    """Stands in for irlcrawl.crawl: remembers what it was called with, ends as told."""

    def __init__(self, code: int = ExitCode.DONE, error: BaseException | None = None) -> None:
        self.code, self.error = code, error
        self.calls: list[tuple[config.Config, list[bytes]]] = []

    def run_crawl(self, at: JobDir, with_config: config.Config, seeds: Iterable[Any], *, progress: Any) -> int:
        assert at.lock_fds and at.is_locked(), "the lock is held while a crawl runs"
        at.write_config(to_toml(with_config))
        Catalog.open(at.state).close()
        progress.tick(dict)
        self.calls.append((with_config, list(seeds)))
        if self.error is not None:
            raise self.error
        return self.code


@pytest.fixture
def crawl(monkeypatch: pytest.MonkeyPatch) -> FakeCrawl:
    fake = FakeCrawl()
    monkeypatch.setitem(sys.modules, "irlcrawl.crawl.start", types.SimpleNamespace(run_crawl=fake.run_crawl))
    monkeypatch.setattr(verbs_crawl, "_log_to", lambda file, note: None)  # the log's handlers would outlive the test
    monkeypatch.setattr(job, "LOCK_WAIT_SECONDS", 0.0)
    return fake


# -- crawl ------------------------------------------------------------------------------------------------------------


def test_a_name_that_cannot_be_written_to_standard_output_is_no_traceback(
    crawl: FakeCrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl that had ended as it should ended with code 1 as it said so."""
    where = tmp_path / "\udcff\xe9"
    seeds = ["http://a.test/", "--user-agent", AGENT]
    for encoding in ("ascii", "utf-8"):
        said = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(said, encoding=encoding))
        for verb, *more in (["crawl", *seeds], ["status"], ["inspect"]):
            assert main.main([verb, str(where), *more]) == ExitCode.DONE
            assert b"udcff" in said.getvalue()


def test_a_crawl_gets_its_configuration_and_seeds(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    file, seeds = tmp_path / "c.toml", tmp_path / "seeds"
    file.write_text(f'[crawl]\nuser_agent = "{AGENT}"\n[limits]\npages = 5\n')
    seeds.write_text("b.example\n")
    where = tmp_path / "job"
    code, out, err = run(
        "crawl", where, "--config", file, "-s", "limits.bytes=7", "--seeds", seeds, "https://a.example/x",
        "--scope-kind", "host", "--scope-exclude", r"\.pdf$", "--scope-exclude", "[0-9]{9}", "--limits-seconds", "9.5",
        "--page-scripts", "--no-page-nofollow", "--workers", "2", "c.example",
    )  # fmt: skip
    assert code == ExitCode.DONE, err
    ((used, urls),) = crawl.calls
    assert urls == [b"https://a.example/x", b"http://c.example/", b"http://b.example/"]
    assert (used.crawl.user_agent, used.crawl.workers, used.limits.pages, used.limits.bytes) == (AGENT, 2, 5, 7)
    assert (used.scope.kind, used.scope.exclude) == ("host", [r"\.pdf$", "[0-9]{9}"])
    assert (used.limits.seconds, used.page.scripts, used.page.nofollow) == (9.5, True, False)
    assert load(where / "irlcrawl.toml") == used, "JOB holds the effective configuration"
    assert "done" in out and str(where / "warcs") in out
    assert not JobDir(where).is_locked()


def test_every_key_is_an_option(tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irlcrawl.config.plugins.check", lambda keys: None)  # no such plug-ins are installed
    monkeypatch.setattr("irlcrawl.cluster.on_ray.beside", lambda action, job, keys: 0)  # nor is there such a Ray
    options = []
    expected = load(None, [f"crawl.user_agent={AGENT}"])
    authority(tmp_path / "ca.pem", set())
    (tmp_path / "ranks.csv").write_text("1,example.com\n")
    (tmp_path / "index.cdxj").write_text("!meta\n")
    make(tmp_path)
    for key in keys():
        if not key.single or key.path == "crawl.user_agent":
            continue
        name = "--" + key.path.replace(".", "-").replace("_", "-")
        special = {"list": ["127.0.0.0/8"], "str": "x1"}
        value: Any = {
            "network.resolvers": ["127.0.0.1:5353"], "fetch.tls_ca_file": f"{tmp_path}/ca.pem",
            "urls.parameters_file": os.devnull, "scope.block_file": os.devnull,
            "archive.dedupe_from": [f"{tmp_path}/index.cdxj"], "hooks.webhook": "https://example.org/hook",
            "budgets.ranks_file": f"{tmp_path}/ranks.csv",
            "politeness.hours": "22:00-06:00", "politeness.time_zone": "Asia/Tokyo",
            "network.proxy": "http://127.0.0.1:3128", "network.proxy_logins_file": os.devnull,
            "fetch.client": "httptools", "fetch.headers": ["X-A: b"], "fetch.types": ["text/html"],
            "scope.opt_out_file": os.devnull, "cluster.token_file": os.devnull, "cluster.tls_cert": os.devnull,
            "cluster.tls_key": os.devnull,
            "fetch.signing_key_file": f"{tmp_path}/{KEY_FILE}", "fetch.signature_agent": "https://bot.example.org",
        }.get(key.path)  # fmt: skip
        if value is None and key.choices:
            value = [key.choices[-1]] if key.type == "list" else key.choices[-1]
        if value is None:
            value = special.get(key.type) or (not key.default if key.type == "bool" else None)
        if value is None:
            value = key.default + 1 if key.high is None or key.default + 1 <= key.high else key.low
        if key.type == "bool":
            options += [name if value else name.replace("--", "--no-", 1)]
        else:
            options += [name, str(value[0] if key.type == "list" else value)]
        setattr(getattr(expected, key.section), key.name, value)
    code, _, err = run("crawl", tmp_path / "job", "a.example", "--crawl-user-agent", AGENT, *options)
    assert code == ExitCode.DONE, err
    assert crawl.calls[0][0] == expected


def test_the_same_command_goes_on(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    where = tmp_path / "job"
    command = ("crawl", where, "a.example", "-s", f"crawl.user_agent={AGENT}", "-s", "limits.pages=5")
    assert run(*command)[0] == run(*command)[0] == ExitCode.DONE
    assert crawl.calls[0] == crawl.calls[1]
    assert run("resume", where)[0] == ExitCode.DONE
    assert crawl.calls[2][0] == crawl.calls[0][0] and crawl.calls[2][1] == []
    assert run("resume", where, "b.example", "-s", "limits.pages=6")[0] == ExitCode.DONE
    assert crawl.calls[3][0].limits.pages == 6 and crawl.calls[3][1] == [b"http://b.example/"]


@pytest.mark.parametrize("code", [0, 3, 11, 13, 14, 15])
def test_how_a_crawl_ends_is_the_exit_code(tmp_path: Path, run: Run, crawl: FakeCrawl, code: int) -> None:
    crawl.code = code
    got, out, _ = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT)
    assert got == code
    assert status_record.ENDED[ExitCode(code)] in out
    assert ("irlcrawl resume" in out) == (code in (3, 11, 13, 14, 15))


@pytest.mark.parametrize(
    ("limits", "option"),
    [("pages=5", "--limits-pages"), ("bytes=900", "--limits-bytes"), ("pages=9", "--frontier-bytes-max")],
)
def test_a_crawl_at_its_size_limit_says_which(
    tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch, limits: str, option: str
) -> None:
    crawl.code = ExitCode.SIZE_LIMIT
    record = status_record.complete({"fetched": 5, "bytes": 1000})
    monkeypatch.setattr(status_record, "read_status", lambda job: dict(record))
    _, out, _ = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT, "-s", f"limits.{limits}")
    assert f"irlcrawl resume {tmp_path / 'job'} {option} MORE\n" in out


def test_errors_of_a_crawl_have_codes(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    from drum import Damaged

    from budgets import LedgerError

    starved = RuntimeError("Cannot close a running event loop")  # what fails on the way out hides what did first
    starved.__context__ = RuntimeError("can't start new thread")
    for error, code, told in [
        (MemoryError(), ExitCode.FAILED, "irlcrawl: out of memory; what was committed is safe"),
        (starved, ExitCode.FAILED, "irlcrawl: out of memory; what was committed is safe"),
        (OSError(28, "No space left on device"), ExitCode.DISK_FULL, "No space left on device; make room, and run"),
        (OSError(5, "Input/output error", "job/x"), ExitCode.FAILED, "irlcrawl: job/x: Input/output error"),
        (LedgerError("a URL too many"), ExitCode.DAMAGED, "a URL too many; to check all of it: irlcrawl fsck"),
        (Damaged("job/state/x.seg", 4711, "checksum"), ExitCode.DAMAGED, "job/state/x.seg: damaged at offset 4711"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ""),
    ]:
        crawl.error = error
        got, _, err = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT, "--quiet")
        assert got == code and told in err and "Traceback" not in err
    crawl.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):  # a mistake of ours is not dressed up
        run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT, "--quiet")


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """What one test leaves ignored must not be inherited by the processes of others."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def test_a_second_signal_while_ending_is_no_death_by_signal(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two within 20 ms, before the crawl listened, ended it by a signal instead of with an exit code."""
    monkeypatch.setattr(JobDir, "check_usable", lambda *_: signal.raise_signal(signal.SIGTERM))
    code, _, err = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    assert code == ExitCode.INTERRUPTED and "Traceback" not in err


def test_sigterm_before_the_crawl_listens_is_a_clean_stop(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the half second before it, SIGTERM was death by a signal where SIGINT was exit code 11."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(JobDir, "check_usable", lambda _: signal.raise_signal(signal.SIGTERM))
    try:
        code, _, err = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == ExitCode.INTERRUPTED and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["a.example"], 4, USER_AGENT_EXAMPLE),
        (["a.example", "--user-agent", "Bot/1.0"], 4, "carries no contact"),
        (["--user-agent", AGENT], 4, "no seeds"),
        (["ftp://a.example", "--user-agent", AGENT], 4, "URL 1 of the command line"),
        (["--seeds", "bad-seeds", "--user-agent", AGENT], 4, "bad-seeds:2: "),
        (["--ranks", "bad-seeds", "--top", "5", "--user-agent", AGENT], 4, "bad-seeds:1: "),
        (["--ranks", "bad-seeds", "--user-agent", AGENT], 4, "--ranks FILE and --top N go together"),
        (["--top", "3", "--user-agent", AGENT], 4, "--ranks FILE and --top N go together"),
        (["--seeds", "empty", "--user-agent", AGENT], 4, "no seeds (none in empty)"),
        (["--ranks", "bad-seeds", "--top", "0", "--user-agent", AGENT], 4, "--top 0: takes a whole number"),
        (["--seeds", "none", "--user-agent", AGENT], 4, "none: No such file"),
        (["a.example", "--user-agent", AGENT, "-s", "limits.page=3"], 4, "did you mean limits.pages?"),
        (["a.example", "--user-agent", AGENT, "--config", "none.toml"], 4, "none.toml"),
        (["a.example", "--user-agent", AGENT, "--config", "bad.toml"], 4, "bad.toml: scope.knd: no such key"),
        (["a.example", "--user-agent", AGENT, "--limits-pages", "many"], 4, 'limits.pages = "many"'),
        (["a.example", "--user-agent", AGENT, "--limit-pages", "3"], 4, "--limit-pages"),
        (["a.example", "--user-agent", AGENT, "--tls"], 4, "--tls"),
        (["a.example", "--user-agent", AGENT, "--page-sitemaps=false"], 4, "--no-page-sitemaps: takes no value"),
        ([], 4, "no crawl here"),  # what a mistyped JOB of `resume` needs to hear
    ],
)
def test_what_is_refused_touches_nothing(
    tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad-seeds").write_text("a.example\nftp://b.example\n")
    Path("empty").touch()
    Path("bad.toml").write_text('[scope]\nknd = "host"\n')
    before = tree(tmp_path)
    for place in ("job", "deep/job"):
        got, _, err = run("crawl", place, *words)
        assert got == code and told in err, err
    assert tree(tmp_path) == before and not crawl.calls
    assert run("crawl", "job", "a.example", "--user-agent", AGENT)[0] == ExitCode.DONE
    before = tree(tmp_path)
    if "no seeds" not in told and "--user-agent" in words:
        got, _, err = run("resume", "job", *words)
        assert got == code and told in err, err
        assert tree(tmp_path) == before, "a crawl that is there stays as it was"


def test_what_shaped_a_crawl_is_refused_on_resume(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    where = tmp_path / "job"
    run("crawl", where, "a.example", "--user-agent", AGENT)
    before = tree(tmp_path)
    got, _, err = run("resume", where, "--budgets-base", "11")
    assert got == ExitCode.CONFIG and "budgets.base was 30, now 11" in err
    assert tree(tmp_path) == before and len(crawl.calls) == 1


def test_what_a_resumed_crawl_has_otherwise_is_said_and_logged(
    tmp_path: Path, run: Run, crawl: FakeCrawl, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl keeps the values it was made with, whatever the defaults of a later version are."""
    where = tmp_path / "job"
    run("crawl", where, "a.example", "--user-agent", AGENT, "-s", "budgets.curve=rank")
    assert "now" not in run("resume", where)[2]
    told = 'budgets.curve was "rank", now "log"'
    with caplog.at_level("INFO"):
        assert told in run("resume", where, "-s", "budgets.curve=log")[2]
    assert told in caplog.messages
    assert [made.budgets.curve for made, _ in crawl.calls] == ["rank", "rank", "log"]


def test_a_locked_job_says_so(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    where = tmp_path / "job"
    with JobDir(where):
        before = tree(tmp_path)
        got, _, err = run("crawl", where, "a.example", "--user-agent", AGENT)
        assert got == ExitCode.LOCKED and f"in use by process {os.getpid()}" in err
        assert tree(tmp_path) == before


def test_a_place_that_cannot_be_written(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    (tmp_path / "file").write_text("")
    got, _, err = run("crawl", tmp_path / "file" / "job", "a.example", "--user-agent", AGENT)
    assert got == ExitCode.FAILED and "is not a directory" in err and "Traceback" not in err


def test_a_dry_run_checks_everything_and_does_nothing(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    got, out, err = run("crawl", tmp_path / "job", "a.example", "b.example", "--user-agent", AGENT, "--dry-run")
    assert got == ExitCode.DONE and "would create" in err and "2 seeds" in err
    assert from_dict(tomllib.loads(out)).crawl.user_agent == AGENT
    assert tree(tmp_path) == {} and not crawl.calls
    assert run("crawl", tmp_path / "job", "http://", "--user-agent", AGENT, "--dry-run")[0] == ExitCode.CONFIG


# -- the program ------------------------------------------------------------------------------------------------------


def test_help_version_and_mistakes(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0 and all(f"\n  {verb} " in out for verb in main.VERBS)
    code, _, err = run("creep", "job")
    assert code == ExitCode.CONFIG and err.startswith("irlcrawl: no verb 'creep'") and err.count("\n") == 1
    assert "did you mean status?" in run("statsu", "job")[2]
    assert run()[0] == ExitCode.CONFIG
    code, _, err = run("crawl")
    assert code == ExitCode.CONFIG and err.endswith("required: JOB\n"), "seeds may come otherwise"
    for verb in main.VERBS:
        code, out, _ = run(verb, "--help")
        job = {
            "config": "[JOB]", "doctor": "[DIR]", "export": "WHAT JOB", "key": "DIR", "plan": "[--ram R]",
            "worker-node": "DIR", "cluster": "up|add", "fetch": "LIST",
        }.get(verb, "JOB")  # fmt: skip
        assert code == 0 and out.startswith(f"usage: irlcrawl {verb} {job}")
        assert run("help", verb) == (code, out, "")
    code, out, _ = run("--version")
    assert code == 0 and "missing" not in out


def test_an_option_that_nobody_knows_is_told_with_the_one_that_was_meant(tmp_path: Path, run: Run) -> None:
    code, _, err = run("crawl", tmp_path / "job", "a.example", "--limit-pages", "3")
    assert code == ExitCode.CONFIG and "--limit-pages 3; did you mean --limits-pages?" in err
    for words in (["status", tmp_path, "--zzz"], ["report", tmp_path, "--by", "sites"]):
        code, _, err = run(*words)
        assert code == ExitCode.CONFIG and "did you mean" not in err, "--by was meant for --by"


def test_a_proxy_that_only_the_environment_names_is_told(
    tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who set it believed that the crawl went by it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    asked = ("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT)
    assert "http_proxy of the environment: not used; a proxy is named by network.proxy" in run(*asked)[2]
    assert "http_proxy" not in run(*asked, "-s", "network.proxy=http://127.0.0.1:3128")[2]


def test_the_versions_shown_are_those_of_all_dependencies() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    names = [requirement.split(">")[0] for requirement in project["dependencies"]]
    assert sorted(names) == sorted(main.DEPENDENCIES)


def test_as_a_program_it_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    script = (
        "import sys; from irlcrawl.cli.main import main\ncode = main(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
    )
    heavy = {"numpy", "asyncio", "aiohttp", "uvloop", "rich", "re2"}
    for words in (["--help"], ["status", "none"], ["crawl", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        assert not heavy & set(done.stdout.split()), words
    command = [sys.executable, "-m", "irlcrawl", "crawl", str(tmp_path / "job"), "a.example"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.CONFIG and USER_AGENT_EXAMPLE in done.stderr
    assert tree(tmp_path) == {}


def test_a_crawl_that_may_open_too_few_files_says_so_before_it_begins(tmp_path: Path) -> None:
    """It aborted in its event loop, with tracebacks."""
    words = [sys.executable, "-m", "irlcrawl", "crawl", str(tmp_path / "job"), "a.example", "--user-agent", AGENT]
    command = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, tree(tmp_path)) == (ExitCode.FAILED, "", {})
    assert (
        done.stderr == "irlcrawl: `ulimit -Hn` lets a process open 16 files, and a crawl needs 512: raise that limit\n"
    )


def test_every_wrong_key_is_told_at_once(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[limits]\npages = "x"\nsecond = 1\n[scoop]\na = 1\n[site."a.test"]\nblok = true\n')
    code, _, err = run("crawl", tmp_path / "job", "a.test", "--config", file)
    lines = [line.removeprefix("irlcrawl: ").removeprefix(f"{file}: ") for line in err.splitlines()]
    assert code == ExitCode.CONFIG and lines == [
        'limits.pages = "x": takes a whole number, at least 0',
        "limits.second: no such key; did you mean limits.seconds?",
        "scoop: no such section; did you mean scope?",
        'site."a.test".blok: no such key; did you mean site."a.test".block?',
    ]
    told = run("config", "-s", "politeness.gap_host=3", "-s", "limits.pages=x")[2]
    assert "gap_host_seconds or politeness.gap_host_factor" in told and 'limits.pages = "x": takes' in told


def test_of_options_in_two_spellings_and_a_file_only_the_first_wrong_key_was_told(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text("[limits]\nno = 1\n")
    words = ["--config", file, "-s", "crawl.x=1", "--limits-pages", "abc", "--scope-kind", "all"]
    code, _, err = run("crawl", tmp_path / "job", "a.example", *words)
    wrong = ("limits.no", "crawl.x", 'limits.pages = "abc"', 'scope.kind = "all"')
    assert code == ExitCode.CONFIG and all(key in err for key in wrong) and err.count("\n") == len(wrong)


def test_config_says_where_each_value_comes_from(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[limits]\npages = 5\n")
    code, out, _ = run("config", "--config", file, "-s", 'site."a.test".block=true', "-s", "scope.depth_max=3")
    assert code == 0 and out.splitlines() == [
        "scope.depth_max = 3  # -s", f"limits.pages = 5  # {file}", 'site."a.test".block = true  # -s',
    ]  # fmt: skip
    assert "limits.seconds = 0.0  # default" in run("config", "--config", file, "--all")[1]
    assert run("config")[1].startswith("# irlcrawl configuration: every key with its default")


def test_config_shows_every_kind_of_rule(tmp_path: Path, run: Run) -> None:
    """Rules [[revisit_rule]] were left out of what a crawl goes by."""
    file = tmp_path / "c.toml"
    file.write_text('[[priority]]\nmatch = "/a/"\nweight = 3\n[[revisit_rule]]\nmatch = "/b/"\nweight = 0.5\n')
    assert run("config", "--config", file)[1].splitlines() == [
        f'priority 1.match = "/a/"  # {file}', f"priority 1.weight = 3  # {file}",
        f'revisit_rule 1.match = "/b/"  # {file}', f"revisit_rule 1.weight = 0.5  # {file}",
    ]  # fmt: skip


@pytest.mark.parametrize(("option", "told"), [
    ("cluster.listen=127.0.0.1", "takes HOST:PORT"), ("cluster.listen=127.0.0.1:7117", "without a secret"),
    (f"archive.dedupe_from={__file__}", "line 1 is not one of CDXJ"),
])  # fmt: skip
def test_a_refused_configuration_is_not_written_into_job(tmp_path: Path, run: Run, option: str, told: str) -> None:
    """Keys of [cluster] were looked at after JOB was made, and had the refused configuration (exit code 4)."""
    code, _, err = run("crawl", tmp_path / "job", "a.example", "--user-agent", AGENT, "-s", option)
    assert code == ExitCode.CONFIG and told in err and not tree(tmp_path)


@pytest.mark.parametrize("name", ["https://a.example/", ""])
def test_a_url_in_the_place_of_job_makes_no_directory(
    tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`irlcrawl crawl URL URL` made a crawl in the directory `https:`, and one without a name lay in this one."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run("crawl", name, "https://b.example/", "--user-agent", AGENT)
    assert code == ExitCode.CONFIG and "takes the directory of the crawl" in err and not tree(tmp_path)


# -- the documents ----------------------------------------------------------------------------------------------------


GUIDES = (
    "README",
    *(f"docs/{name}" for name in ("settings", "requests", "wishes", "steering", "archives", "exports", "hooks")),
)
"""The README, and the pages that say more of one of its sections."""


def guides_commands() -> list[list[str]]:
    text = "".join((REPOSITORY / f"{name}.md").read_text() for name in GUIDES)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(text for kind, text in blocks if not kind).replace("\\\n", " ").splitlines()
    return [shlex.split(line.partition(" > ")[0], comments=True) for line in lines if line.startswith("irlcrawl ")]


def test_every_documents_commands_are_parsed() -> None:
    """docs/freshness.md named an option that there is not. `...` stands for more of the same."""
    files = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]
    blocks = [text for file in files for text in fenced(file.read_text())]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line.partition(" > ")[0], comments=True) for line in lines if line.startswith("irlcrawl ")]
    commands = [command for command in commands if command[1].islower()]  # not `VERB`
    assert len(commands) > 80
    for _, name, *words in commands:
        if name not in ("--version", "help"):
            parser = main._Parser(f"irlcrawl {name}", allow_abbrev=False)
            main.VERBS[name].arguments(parser)
            parser.parse_intermixed_args([word for word in words if word != "..."])


def fenced(text: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for kind, block in blocks if kind in ("", "sh")]


def test_the_commands_of_readme_and_guides_are_commands(
    tmp_path: Path, run: Run, crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crawl.toml").write_text("[limits]\npages = 5\n")
    Path("seeds.txt.gz").write_bytes(gzip.compress(b"a.example\n"))
    Path("opt-out.txt").write_text("host b.example 2026-11-02 asked by mail\n")
    commands = guides_commands()
    assert {command[1] for command in commands} == set(main.VERBS)
    for command in commands:
        code, _, err = run(*command[1:])
        if command[1] == "doctor":  # what it says is about this machine
            assert code in (ExitCode.DONE, ExitCode.FAILED) and "ok   clock" in run(*command[1:])[1]
            continue
        if command[1] == "worker-node":
            assert code == ExitCode.CONFIG and "secret: No such file" in err
            continue
        if command[1] == "cluster":
            assert code == ExitCode.CONFIG and "no Ray cluster is named" in err
            continue
        # No page was fetched, no state was begun, and there is no list.
        lacking = command[1] in ("get", "seeds", "generate", "fetch", "update")
        assert code == (ExitCode.FAILED if lacking else ExitCode.DONE), (command, err)
    assert crawl.calls[-1][0].scope.exclude == ["\\?", "\\.pdf$"]


def test_a_list_in_one_option_is_a_list_as_it_is_for_s(tmp_path: Path, run: Run, crawl: FakeCrawl) -> None:
    """--scope-exclude '["\\\\?"]' was one pattern, a class of characters that nearly every URL has one of."""
    listed = r'["\\?", "\\.pdf$"]'
    code, _, err = run("crawl", tmp_path / "job", "--user-agent", AGENT, "--scope-exclude", listed,
                       "--scope-exclude", "[0-9]", "--scope-exclude", "[7]", "http://a.example/")  # fmt: skip
    assert code == ExitCode.DONE, err
    assert crawl.calls[-1][0].scope.exclude == [r"\?", r"\.pdf$", "[0-9]", "[7]"]


def test_the_readme_knows_every_exit_code() -> None:
    table = re.findall(r"^\| (\d+) \|", (REPOSITORY / "README.md").read_text(), re.MULTILINE)
    assert sorted(map(int, table)) == sorted(ExitCode)
