"""Names of files in JOB: what is made is parsed again, and no production file spells one but the two that own them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from drum import names as drum_names

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base import job_files
from irlcrawl.base.job_files import Warc

ROOT = Path(__file__).parents[2]
HOMES = {"drum/names.py", "irlcrawl/base/job_files.py"}
IN_JOB = re.compile(
    r"irlcrawl\.(toml|log|tmp)|control\.sock|^ballast$|leases\.log|crawl\.log|\.warc\.gz|\.open$|\.repaired|\.damaged"
    r"|(^|/)(turn|harvest|robots|catalog)-|^(LOCK|SNAPSHOT|warcs|logs)$"
)
ENDINGS = re.compile(r"\.(seg|tmp|gz)\b")
"""Those of drum and irlcrawl; files of the tools and benchmarks that lie outside of a JOB may end alike."""
DIRECTORIES = {job_files.STATE, job_files.LOGS, job_files.WARCS, job_files.SNAPSHOTS}

numbers = st.integers(0, 10**12)


@given(numbers, numbers)
def test_a_name_that_is_made_is_parsed_again(one: int, other: int) -> None:
    assert job_files.parse_turn(job_files.turn_name(one)) == one
    assert job_files.parse_harvest(job_files.harvest_name(one, other)) == (one, other)
    assert job_files.parse_rules_log(job_files.rules_log_name(one)) == one
    assert drum_names.parse_log(drum_names.log_name(one)) == one
    assert drum_names.parse_numbered(drum_names.numbered(one)) == one
    for compressed in (False, True):
        assert job_files.parse_part("crawl.log", job_files.part_name("crawl.log", one, compressed)) == one


@given(
    st.text("aZ0._+-", min_size=1), st.from_regex(r"[0-9]{17}", fullmatch=True), numbers, numbers,
    st.booleans(),
)  # fmt: skip
def test_the_name_of_an_archive_is_parsed_again(prefix: str, time: str, serial: int, stream: int, open_: bool) -> None:
    told = Warc(prefix, time, serial, stream, open_)
    assert job_files.parse_warc(job_files.warc_name(told)) == told


def test_names_are_those_that_crawls_have() -> None:
    """Crawls on disk have them: they are not changed."""
    assert drum_names.log_name(3) == "catalog-000003.log"
    assert job_files.turn_name(12) == "turn-000000012.seg"
    assert job_files.harvest_name(1, 23) == "harvest-0001-000023.seg"
    assert job_files.rules_log_name(7) == "robots-0007.log"
    assert job_files.part_name("logs/crawl.log", 4) == "logs/crawl.log.4"
    assert job_files.part_name("crawl.log", 4, compressed=True) == "crawl.log.4.gz"
    archive = "irlcrawl-20260102030405678-00001-s0012.warc.gz"
    assert job_files.warc_name(Warc("irlcrawl", "20260102030405678", 1, 12)) == archive
    assert job_files.parse_warc(archive + ".open") == Warc("irlcrawl", "20260102030405678", 1, 12, True)


@pytest.mark.parametrize(
    "name", ["", "turn-1.seg", "turn-000000001.seg.tmp", "harvest-0001.seg", "robots-1.log", "crawl.log", "x.warc.gz"]
)  # fmt: skip
def test_a_name_of_another_kind_is_none(name: str) -> None:
    parsers = (job_files.parse_turn, job_files.parse_harvest, job_files.parse_rules_log, job_files.parse_warc)
    assert [parse(name) for parse in (*parsers, drum_names.parse_log, drum_names.parse_numbered)] == [None] * 6
    assert job_files.parse_part("crawl.log", name) is None
    assert job_files.parse_part("crawl.log", "irlcrawl.log.1.gz") is None


def test_what_a_crawl_calls_a_segment_the_catalogue_sweeps() -> None:
    assert job_files.SEGMENT == drum_names.SEGMENT
    assert job_files.temporary("a") == "a" + drum_names.TEMPORARY


def test_no_other_file_spells_the_name_of_a_file_in_job() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for package in ("drum", "budgets", "irlcrawl", "tools", "bench")
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in HOMES
        for line, text in spelled(path.read_text(), package in ("drum", "irlcrawl"))
    ]
    assert not found, "\n".join(found)


def test_a_name_that_is_spelled_would_be_found() -> None:
    source = (
        '"""leases.log in a docstring."""\n'
        'a = "leases.log"\nb = f"harvest-{a:04d}.seg"\nc = job / "state"\nd = {"state": 1}\n'
        'e = os.path.join(job, "snapshots")\nf = "a sentence on crawl.log"\n'
    )
    assert [line for line, _ in spelled(source, True)] == [2, 3, 3, 4, 6]


def spelled(source: str, endings: bool) -> list[tuple[int, str]]:
    """(line, text) of every string of a program that is a name in JOB, or a part of one. Docstrings are not, and no
    more what has blanks in it: texts for people."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            name = not re.search(r"\s", node.value) and IN_JOB.search(node.value)
            if name or (endings and re.fullmatch(r"\S*", node.value) and ENDINGS.search(node.value)):
                found.append((node.lineno, node.value))
        for part in joined(node):
            if isinstance(part, ast.Constant) and part.value in DIRECTORIES and (part.lineno, part.value) not in found:
                found.append((part.lineno, str(part.value)))
    return sorted(found)


def joined(node: ast.AST) -> list[ast.expr]:
    """The parts of a path that this makes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.right]
    return node.args if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.path.join" else []
