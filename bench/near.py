"""`python -m bench near`: are near-duplicates found, and are those that are found some? What does it cost?

Pages of docsweb and mirrors of each with one edit: a word is another one (`word`), a date (`date`), a navigation bar is
there (`nav`: in half of the mirrors as `<nav>` with the titles of twelve pages, in the others as a list of short
labels); and, no mirror, the texts of another page of its set in its template: between the first and last tenth of its
texts (`article`; found near that other page it is one of that page, near its template's it is wrong). Every page is
compared with every other one.

recall: of mirrors with an edit (by edit, and of `word`, `date` and `nav` together) the share that is near its page.
precision: of pages that are near an earlier one, the share of those that are right: near one of the same page, or one
whose words are as much alike as RESEMBLANCE says (equal triples of words, of all triples that either has; read by
another parser than ours). precision_pairs: the same of all pairs of pages found; two pages taken for alike wrongly are
25 wrong pairs, with their mirrors. Pages that say too little for a sketch are counted, and left out. The same is
measured of MinHash (84 permutations of the same features, in six groups of 14, two of which are equal).

Cost: microseconds of a sketch a page (CPU), and of the drum's pass a page when `--stored` pages are stored already.
`python -m bench worker -s page.near_duplicates=true` has the rest.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drum.hamming import Near

import numpy as np
from numpy.typing import NDArray
from selectolax.lexbor import LexborHTMLParser

from irlcrawl.frontier.state.near import PAGES_MAX, SHARE
from irlcrawl.worker.page import sketch as sketching
from irlcrawl.worker.page.fingerprint import fingerprint, texts_of
from irlcrawl.worker.page.sketch import PARTS
from tools.docsweb import sets
from tools.options import whole

MIRRORS = ("word", "date", "nav")
RESEMBLANCE = 0.8
PERMUTATIONS, GROUPS, GROUPS_EQUAL = 84, 6, 2
TOGETHER = 5  # pages that a worker sketches at a time, about
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November")
U8 = NDArray[np.uint64]


@dataclass
class Page:
    source: int
    edit: str  # "": the page itself
    body: bytes


def pages_of(names: str, each: int, drawn: random.Random) -> tuple[list[Page], int]:
    """Pages of docsweb's sets, `each` of a set at most, with their mirrors; and how many said too little."""
    roots, missing = sets.unpacked(sets.chosen(names), sets.cache_dir())
    if missing:
        raise sets.DocswebError("; ".join(missing.values()))
    pages: list[Page] = []
    little = source = 0
    for _, root in sorted(roots.items()):
        files = sorted(path for path in Path(root).rglob("*.html") if path.is_file())
        bodies = [path.read_bytes() for path in drawn.sample(files, min(each, len(files)))]
        first = source
        for at, body in enumerate(bodies):
            source = first + at
            if not sketching.sketches([sketching.words_of(body, texts_of(body))])[0]:
                little += 1
                continue
            other = bodies[at - 1]
            dated, again = with_date(body, drawn), with_date(body, drawn)
            made = {"": body, "word": with_word(body, drawn), "nav": with_bar(body, bodies, drawn),
                    "article": with_article(body, other), "date from": dated, "date": again}  # fmt: skip
            said_by = first + (at - 1) % len(bodies)  # the article
            pages += [Page(said_by if edit == "article" else source, edit, page) for edit, page in made.items()]
        source = first + len(bodies)
    return pages, little


def with_word(body: bytes, drawn: random.Random) -> bytes:
    """One word of its long texts is another word of them."""
    words = [match.span() for text in texts_of(body) if (at := body.find(text)) >= 0
             for match in re.compile(rb"[A-Za-z\x80-\xff]{3,}").finditer(body, at, at + len(text))]  # fmt: skip
    start, end = drawn.choice(words)
    others = [word for span in words if (word := body[slice(*span)]) != body[start:end]]
    return body[:start] + drawn.choice(others or [b"otherwise"]) + body[end:]


def with_date(body: bytes, drawn: random.Random) -> bytes:
    day = f"{drawn.randint(1, 28)} {drawn.choice(MONTHS)} {drawn.randint(1999, 2031)}"
    return body + f"<p>This page was last changed on {day} by its editors.</p>".encode()


def with_bar(body: bytes, bodies: list[bytes], drawn: random.Random) -> bytes:
    """Behind <body>."""
    titles = [re.search(rb"<title[^>]*>([^<]*)", page) for page in drawn.sample(bodies, min(12, len(bodies)))]
    if drawn.random() < 0.5:
        bar = b"<nav>" + b"".join(b"<a href=x>%b</a>" % title[1] for title in titles if title) + b"</nav>"
    else:
        bar = b"<ul>" + b"".join(b"<li><a href=x>%b</a>" % title[1][:16] for title in titles if title) + b"</ul>"
    at = body.find(b">", body.find(b"<body")) + 1
    return body[:at] + bar + body[at:]


def with_article(body: bytes, other: bytes) -> bytes:
    """The long texts of another page between the first and last tenth of this one's."""
    own, theirs = texts_of(body), texts_of(other)
    frame = max(len(own) // 10, 1)
    return b"<html><body>" + b"".join(b"<p" + text for text in [*own[:frame], *theirs, *own[-frame:]])


def words_of(body: bytes) -> set[tuple[str, ...]]:
    """Its triples of words, by a parser of its own."""
    tree = LexborHTMLParser(body.decode("utf-8", "replace"))
    tree.strip_tags(["script", "style", "nav"])
    words = re.findall(r"[^\W\d_]+", (tree.body.text(separator=" ") if tree.body else "").lower())
    return set(zip(words, words[1:], words[2:], strict=False))


def judged(pages: list[Page], near: list[tuple[int, int]]) -> dict[str, Any]:
    """near: pairs of pages found, the lower number first."""
    found = set(near)
    places = {(page.source, page.edit): at for at, page in enumerate(pages) if page.edit != "article"}
    recall = {}
    for edit in MIRRORS:
        base = "date from" if edit == "date" else ""
        hits = [
            (places[source, base], at) in found or (at, places[source, base]) in found
            for (source, kind), at in places.items() if kind == edit
        ]  # fmt: skip
        recall[edit] = sum(hits) / len(hits)
    right = alike = 0
    said: dict[int, bool] = {}  # by page with a verdict, as if pages came in this order: whether it is right
    triples: dict[int, set[tuple[str, ...]]] = {}
    for one, other in near:
        if pages[one].source == pages[other].source:
            right += 1
            said[other] = True
            continue
        a, b = (triples.setdefault(at, words_of(pages[at].body)) for at in (one, other))
        resembles = len(a & b) >= RESEMBLANCE * max(len(a | b), 1)
        alike += resembles
        said[other] = said.get(other, False) or resembles
    return {
        "recall": round(sum(recall.values()) / len(recall), 4),
        "precision": round(sum(said.values()) / max(len(said), 1), 4),
        "precision_pairs": round((right + alike) / max(len(near), 1), 4),
        **{f"recall_{edit}": round(share, 4) for edit, share in recall.items()},
        "pairs": len(near), "pairs_of_one_page": right, "pairs_alike": alike, "pairs_wrong": len(near) - right - alike,
    }  # fmt: skip


def pairs_by_sketch(bodies: list[bytes]) -> tuple[list[tuple[int, int]], float]:
    """(pairs of near-duplicates, CPU microseconds of a sketch)."""
    texts = [texts_of(body) for body in bodies]
    began = time.process_time()
    sketches: list[tuple[int, ...]] = []
    for at in range(0, len(bodies), TOGETHER):
        some = zip(bodies[at : at + TOGETHER], texts[at : at + TOGETHER], strict=True)
        sketches += sketching.sketches([sketching.words_of(body, text) for body, text in some])
    spent = time.process_time() - began
    rows = [at for at, parts in enumerate(sketches) if parts]
    parts: U8 = np.array([sketches[at] for at in rows], np.uint64)
    found = []
    for at in range(len(rows)):
        close = (np.bitwise_count(parts[at + 1 :] ^ parts[at]) <= 3).any(axis=1)
        found += [(rows[at], rows[at + 1 + int(other)]) for other in np.flatnonzero(close)]
    return found, spent / len(bodies) * 1e6


def pairs_by_minhash(bodies: list[bytes]) -> tuple[list[tuple[int, int]], float]:
    drawn = np.random.default_rng(1)
    factors, offsets = (drawn.integers(0, 2**64, PERMUTATIONS, np.uint64)[:, None] for _ in range(2))
    texts = [texts_of(body) for body in bodies]
    groups: U8 = np.zeros((len(bodies), GROUPS), np.uint64)
    began = time.process_time()
    for at, some in enumerate(texts):
        features, _ = sketching.features_of([sketching.words_of(bodies[at], some)])
        if len(features) >= sketching.FEATURES_MIN:
            least = ((features * (factors | np.uint64(1))) ^ offsets).min(axis=1).reshape(GROUPS, -1)
            groups[at] = np.bitwise_xor.reduce(least * factors.reshape(GROUPS, -1), axis=1)
    spent = time.process_time() - began
    rows = np.flatnonzero(groups.any(axis=1))
    found = []
    for number, at in enumerate(rows.tolist()):
        later = rows[number + 1 :]
        close = (groups[later] == groups[at]).sum(axis=1) >= GROUPS_EQUAL
        found += [(at, int(other)) for other in later[close]]
    return found, spent / len(bodies) * 1e6


def pass_us(stored: int) -> float:
    """CPU microseconds a page of the drum's pass, where so many pages are stored: 1,000,000 parts are compared, and the
    others reckoned."""
    drawn = np.random.default_rng(2)
    batch = max(min(PAGES_MAX, stored // SHARE), 1)
    keys = np.unique(drawn.integers(0, 2**64, PARTS * batch, np.uint64))
    some = drawn.integers(0, 2**64, 1_000_000, np.uint64)
    began = time.process_time()
    near = Near(keys, np.arange(len(keys)))
    near.meet(keys, np.arange(len(keys)))
    own = time.process_time() - began
    for start in range(0, len(some), 65_536):
        near.meet(some[start : start + 65_536])
    past = (time.process_time() - began - own) * PARTS * stored / len(some)
    return (own + past) / batch * 1e6


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench near", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--pages", type=whole(2), default=200, help="of each set at most (default %(default)s)")
    parser.add_argument("--stored", default="1e5,1e6,4e6,1e7", help="numbers of pages (default %(default)s)")
    parser.add_argument("--seed", type=whole(0), default=1, help="of the edits (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="a JSON line for each")
    options = parser.parse_args(argv)
    pages, little = pages_of(options.sets, options.pages, random.Random(options.seed))
    bodies = [page.body for page in pages]
    rows: list[dict[str, Any]] = []
    for name, method in (("sketch", pairs_by_sketch), ("minhash", pairs_by_minhash)):
        near, spent = method(bodies)
        rows.append({"bench": "near", "method": name, "pages": len(pages) // 6, "said_too_little": little,
                     **judged(pages, near), "us_a_page": round(spent, 1)})  # fmt: skip
    began = time.process_time()
    for body in bodies:
        fingerprint(body)
    rows.append({"bench": "near", "fingerprint_us": round((time.process_time() - began) / len(bodies) * 1e6, 1)})
    for stored in (int(float(number)) for number in options.stored.split(",")):
        rows.append({"bench": "near", "stored_pages": stored, "pass_us_a_page": round(pass_us(stored), 1)})
    print("\n".join(json.dumps(row) if options.json else "  ".join(f"{k}={v}" for k, v in row.items()) for row in rows))
    return 0
