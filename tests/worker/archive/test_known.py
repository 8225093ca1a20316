"""What is known of a page: into a unit and a lease and back, and when it is asked for conditionally."""

from __future__ import annotations

import json
from email.utils import formatdate

from drum import Batch, Ragged

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.rows import LINK, PAGE, PageFlag
from irlcrawl.worker.archive.known import COLUMNS, Known, conditions
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch.lease import Lease, leased_urls
from tests.worker.archive.support import unit_of

PAST = 1_700_000_000
PAGES = st.builds(
    Known, st.integers(0, 2**16 - 1), st.floats(0, 4e9), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=76), st.binary(max_size=512),
)  # fmt: skip


def known(etag: bytes = b'"1"', **columns: object) -> Known:
    page = Known(visits=1, stored=PAST + 9.5, digest=7, flags=PageFlag.VALIDATOR, validators=bytes(12) + etag)
    return page._replace(**columns)  # type: ignore[arg-type]


@given(PAGES)
def test_it_comes_back_out_of_a_unit(page: Known) -> None:
    unit = unit_of(page=page, size=0, original=2**40, header="HTTP/1.1 304 \xe9\r\n\r\n")
    text = unit.to_json()
    assert text.isascii() and "\n" not in text
    assert Unit.from_json(text, unit.url) == unit


def test_a_unit_of_a_first_visit_says_nothing_of_it() -> None:
    assert json.loads(unit_of().to_json()).keys().isdisjoint(("page", "size", "original", "header"))


def test_columns_are_those_of_the_row() -> None:
    assert set(COLUMNS) <= set(PAGE)


@given(st.lists(PAGES, min_size=1, max_size=5))
def test_it_comes_back_out_of_a_lease(pages: list[Known]) -> None:
    columns = dict(zip(COLUMNS, zip(*pages, strict=True), strict=True))
    page = Batch({
        name: Ragged.from_list(columns[name]) if PAGE[name] == "bytes" else np.array(columns[name], PAGE[name])
        for name in COLUMNS
    })  # fmt: skip
    rows = Batch.zeros(LINK | PAGE, len(pages)).with_(**page.columns)
    message = json.loads(json.dumps(leased_urls(5, 3, rows)))
    lease = Lease(1, "a.test", "http", 80, "10.0.0.1", 9, 0.0, {}, message, 0.0)
    assert [row[-1] for row in lease.rows()] == [page if page.visits else None for page in pages]


@pytest.mark.parametrize("rows", [Batch.zeros(LINK, 2), Batch.zeros(LINK | PAGE, 2)])
def test_a_lease_of_first_visits_is_as_it_was(rows: Batch) -> None:
    urls = leased_urls(5, 3, rows)
    assert "page" not in urls
    assert [row[-1] for row in Lease(1, "a", "http", 80, "", 9, 0.0, {}, urls, 0.0).rows()] == [None, None]


def test_a_page_is_asked_for_by_what_its_server_said_of_it() -> None:
    assert conditions(known(modified=PAST), 16) == (
        ("If-None-Match", '"1"'), ("If-Modified-Since", "Tue, 14 Nov 2023 22:13:20 GMT"),
    )  # fmt: skip
    assert conditions(known(b"", modified=PAST), 16) == (("If-Modified-Since", "Tue, 14 Nov 2023 22:13:20 GMT"),)
    assert conditions(known(modified=PAST + 10), 16) == (("If-None-Match", '"1"'),), "that date is in the future"


@pytest.mark.parametrize(
    "page",
    [
        None, known(validators=b""), known(flags=0), known(stored=0.0), known(b""), known(visits=15),
        known(visits=31), known(validators=bytes(11)),
    ],
)  # fmt: skip
def test_a_page_is_asked_for_unconditionally(page: Known | None) -> None:
    """Never visited, without validators, its server distrusted, no record to refer to, nothing to ask with, the 16th
    and 32nd visit, half a digest."""
    assert conditions(page, 16) == ()


def test_how_often_is_the_operators_choice() -> None:
    assert conditions(known(visits=15), 0) and conditions(known(visits=15), 15)
    assert not conditions(known(visits=15), 1) and not conditions(known(visits=15), 8)


@given(st.integers(1, 2**32 - 1))
def test_a_date_is_asked_for_as_http_writes_it(modified: int) -> None:
    sha1 = bytes(20)
    known = Known(1, 2.0**33, 0, modified=modified, flags=PageFlag.VALIDATOR, validators=sha1[8:])
    assert conditions(known, 0) == (("If-Modified-Since", formatdate(modified, usegmt=True)),)
