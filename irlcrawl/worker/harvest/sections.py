"""The file of a harvest: its sections, written by one function for workers, seeds, repairs and simulations alike.

A harvest `harvest-SSSS-NNNNNN.seg` (stream, number; both decimal) in JOB/state has the sections

  links     rows.LINK            discoveries in scope, in arrival order
  pairs     rows.PAIR            links between two different sites, in arrival order
  outcomes  rows.OUTCOME         one row per unit of the archive, robots.txt included (segment NO_SEGMENT, class NONE)
  retries   rows.RETRY           URLs to ask for again; attempt is already counted up
  facts     rows.FACT            what was learnt about hosts; `robots` UNKNOWN says nothing about robots.txt
  scope     rows.SCOPE_ENTRY     scope entries that seeds, or their redirects, brought
  returns   rows.RETURN          URLs that were done and are put back: only in harvests of the seeds' stream
  yields    rows.YIELD           a row per URL that is done: whether it brought anything new, for its site's budget;
                                 none for a later visit that found no change
  visits    rows.VISIT           a row per outcome of class FETCHED of a leased URL, with revisit.enabled, and for each
                                 visit of a page that was visited before

  signals   rows.SIGNAL          words that pages changed, if pages are visited again; orders of the operator
  near      rows.NEAR            with page.near_duplicates, a row per page that says enough, in arrival order

all of them always, empty or not. Those that wait for a merge (links, pairs, yields) have labels key >> 56 when they
have over 65,536 rows. On `outcomes` is the meta
  {"stream", "number", "warc": [serial, offset], "counters": {name of counters.COUNTERS: n}}
where `warc` is the end of the last unit it covers. Numbers of a stream count up from 0 without a gap; a harvest covers
the units between its predecessor's `warc` and its own.

The texts that facts point to are in the stream's robots log (rules_log.py), on the disk before a harvest names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from drum import Batch, SegmentWriter

import numpy as np

from irlcrawl.base.rows import FACT, LINK, NEAR, OUTCOME, PAIR, RETRY, RETURN, SCOPE_ENTRY, SIGNAL, VISIT, YIELD

SECTIONS = {
    "links": LINK, "pairs": PAIR, "outcomes": OUTCOME, "retries": RETRY, "facts": FACT, "scope": SCOPE_ENTRY,
    "yields": YIELD, "returns": RETURN, "visits": VISIT, "signals": SIGNAL, "near": NEAR,
}  # fmt: skip
REPAIRED = "repaired"
"""Among the counters of a harvest that a repair made of what waited: its links were counted before."""
LABELLED = ("links", "pairs", "yields")
LABEL_ROWS = 65_536
LABEL_SHIFT = np.uint64(56)


def write_sections(
    writer: SegmentWriter,
    stream: int,
    number: int,
    rows: Mapping[str, Iterable[Batch]],
    position: tuple[int, int] = (0, 0),
    counters: Mapping[str, int] | None = None,
) -> None:
    """All sections of harvest `number` of a stream. rows: the batches of each that is not empty; one that comes as an
    iterator is written as it comes, with labels. OSError."""
    meta = {"stream": stream, "number": number, "warc": list(position), "counters": dict(counters or {})}
    for name, schema in SECTIONS.items():
        section = writer.section(name, schema, meta if name == "outcomes" else None)
        batches = rows.get(name, ())
        many = not isinstance(batches, Sequence) or sum(batch.rows for batch in batches) > LABEL_ROWS
        labelled = many and name in LABELLED
        for batch in batches:
            if batch.rows:
                section.append(batch, (batch["key"] >> LABEL_SHIFT).astype(np.uint8) if labelled else None)
