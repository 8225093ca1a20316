"""What an archived unit means for the crawl: its outcome, the links on its page, what it says about its host.

`process` is pure: live, in steps (`discovering`, and when the unit has its place in the archive, `finished`), and
after a crash, on the unit read back from the archive, it gives the same rows. So it looks only at what the unit and the
stored exchange carry (durations to the millisecond, the body as received), the location, and the crawl's configuration,
seed and committed scope. One exception: a page that was withheld, or is in the archive of another crawl, is not in this
one, so if no harvest had its links it is asked for again.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_not
from typing import Any

from irlcrawl.base.keys import (
    PRIORITY_TRUST,
    WEIGHT_MAX,
    is_home,
    origin_of,
    pair_key,
    priority_behind,
    priority_of,
    url_keys,
)
from irlcrawl.base.reasons import NO_PAGE, OF_PAGES, UNWANTED, Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, VISIT, Carried, Change, PageFlag, Robots, Source
from irlcrawl.base.steps import LARGE_BYTES, Steps, at_once
from irlcrawl.base.url import Base, canonical
from irlcrawl.config.keys import Config, Page
from irlcrawl.web.coding import decode
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import crawl_log
from irlcrawl.worker.archive.record import sha1_of
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.harvest import again
from irlcrawl.worker.harvest.builder import Fact, UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.counters import CUT
from irlcrawl.worker.harvest.plugged import seen
from irlcrawl.worker.page import charset, entries, lastmods, requisites, sitemaps
from irlcrawl.worker.page.fingerprint import fingerprint, texts_of
from irlcrawl.worker.page.linklist import BARE_SHARE, is_list
from irlcrawl.worker.page.links import (
    HTML_TYPES,
    Found,
    extracting,
    is_html,
    link_header,
    refresh_target,
    robots_header,
)
from irlcrawl.worker.page.repetition import directory_key
from irlcrawl.worker.page.sketch import words_of
from irlcrawl.worker.page.wording import wording

STEP_BYTES = 128 << 10
"""Of links worked on between two stops; a link counts as its length and LINK_BYTES."""
LINK_BYTES = 256
LINKS_STEP = 500
"""Rows made between two stops."""
URL_BYTES_SPELLED = 65_535
"""A longer URL is out of every scope, so its spelling does not matter."""
OTHERS_SITEMAPS_MAX = 100
"""Sitemaps of other sites, out of scope, that a robots.txt may name; of 4,231 files the most name 80."""
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_LIST_NAME = re.compile(rb"(?i)\.(?:xml|txt|rss|atom)(?:\.gz)?(?:\?|$)")
_CHANGE = list(VISIT).index("change")

_log = logging.getLogger(__name__)


def process(unit: Unit, exchange: Exchange | None, location: Location, context: Context) -> UnitRows:
    """Everything a harvest takes from one unit (shapes: builder.py). `exchange` is None for a unit that is one
    metadata record. MemoryError, unless it is read again."""
    if context.again and (unit.reason == Reason.WITHHELD or unit.away):  # its links are not here: it is asked for again
        unit = replace(unit, cls=Class.RETRY, retry_due=unit.start + unit.duration_ms / 1000)
    sha1 = sha1_of(location.digest) if unit.page is not None else b""
    return finished(at_once(discovering(unit, exchange, context, sha1)), unit, exchange, location)


def discovering(unit: Unit, exchange: Exchange | None, context: Context, sha1: bytes) -> Steps[UnitRows]:
    """All that needs no place in the archive, in steps. sha1: of the payload, if the page was visited before."""
    found = UnitRows()
    if unit.robots is not None:
        found.fact = _fact(unit, exchange, context.config)
    if unit.segment != NO_SEGMENT:
        yield from _of_url(unit, exchange, context, found, sha1)
    elif found.fact is not None and found.fact.rules and context.config.page.sitemaps:
        yield from _sitemaps(unit, found.fact.rules, context, found)
    return found


def finished(found: UnitRows, unit: Unit, exchange: Exchange | None, location: Location) -> UnitRows:
    """With the outcome, and what the visit found."""
    if found.change is not None and exchange is not None:
        found.visit = again.visit_row(unit, exchange, location, found.change, found)
    found.outcome = _outcome(unit, exchange, location, found)
    return found


def _of_url(unit: Unit, exchange: Exchange | None, context: Context, found: UnitRows, sha1: bytes) -> Steps[None]:
    """What a URL's unit yields beside its outcome."""
    if unit.cls in (Class.FETCHED, Class.FAILED) and unit.page is None and unit.carried.source != Source.REQUISITE:
        found.site = context.names(unit.url)[0]
    if unit.cls == Class.RETRY:
        found.retry = _retry(unit, context)
    elif unit.cls == Class.FETCHED and exchange is not None:
        if unit.page is not None:
            found.change = yield from _again(unit, exchange, context, found, sha1)
        else:
            yield from _read(unit, exchange, context, found)
            cut = unit.reason == Reason.WITHHELD and exchange.truncated is not None
            found.change = Change.FIRST if context.config.revisit.enabled and not cut else None


def _again(unit: Unit, exchange: Exchange, context: Context, found: UnitRows, sha1: bytes) -> Steps[Change]:
    """A page that was visited before: it is read unless it is the same. One that says the same between other links may
    have new ones."""
    change = again.change_of(unit, exchange, sha1)
    if change not in again.UNCHANGED:
        yield from _read(unit, exchange, context, found)
        if change is Change.YES:
            change = again.decided(unit, exchange, change, found.wording)
        if change not in again.WITHOUT_YIELD and unit.carried.source != Source.REQUISITE:
            found.site = context.names(unit.url)[0]
    return change


def _read(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> Steps[None]:
    """Links, pairs and scope entries of a response, as far as it can be read."""
    try:
        yield from _discover(unit, exchange, context, found)
    except Exception as error:  # a page that breaks a parser costs its links; else every start would meet it again
        if isinstance(error, MemoryError) and not context.again:
            raise  # other pages may have taken it: the worker ends, and the unit is read again
        _log.exception("nothing was taken from %s", unit.url.decode("ascii"))
        found.links, found.pairs, found.scope, found.counts = [], [], [], {"unparsed": 1}


def rules_text(exchange: Exchange, config: Config) -> bytes:
    """The text of a robots.txt response, as much of it as is read (robots.bytes_max), in whole lines: the half of a
    path that a bound leaves would forbid, or allow, far more. In UTF-8 (RFC 9309 2.3), also where it came in UTF-16."""
    return rules_read(exchange, config)[0]


def rules_read(exchange: Exchange, config: Config) -> tuple[bytes, bool]:
    """(rules_text(), whether its content coding is damaged before the bound: then it is not all that the file says)."""
    text, cut = decode(exchange.body, exchange.coding, config.robots.bytes_max)
    damaged = cut and not exchange.truncated and len(text) < config.robots.bytes_max
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = text.decode("utf-16", "replace").encode("utf-8", "replace")
    if cut or exchange.truncated:
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text, damaged


def with_tdm(rules: bytes, tdm: str) -> bytes:
    """Rules and the lines of tdmrep.json (web/tdmrep.py) in one text."""
    return rules + b"\n" + tdm.encode("ascii") if tdm else rules


def received(exchange: Exchange) -> int:
    """Bytes of header and body as they came."""
    return len(exchange.header) + len(exchange.body)


def _outcome(unit: Unit, exchange: Exchange | None, location: Location, found: UnitRows) -> tuple[Any, ...]:
    """A row of rows.OUTCOME."""
    size = 0 if exchange is None else len(exchange.header) + (len(exchange.body) if unit.size is None else unit.size)
    cut = {name: str(found.counts[name]) for name in CUT if name in found.counts} if found.counts else {}
    if found.notes:
        cut |= found.notes
    if found.visit is not None and unit.page is not None:
        cut["change"] = again.WORDS[found.visit[_CHANGE]]
    elif found.visit is not None and unit.reason == Reason.WITHHELD:
        cut["page"] = ""
    line = crawl_log.line(unit, exchange, location, cut)
    return (unit.segment, unit.row, unit.key, unit.host, unit.cls, unit.reason, unit.status, size, line)


def _fact(unit: Unit, exchange: Exchange | None, config: Config) -> Fact:
    assert unit.robots is not None
    state, rules = unit.robots.get("robots", Robots.UNKNOWN), None
    if state == Robots.RULES and exchange is not None:
        rules = with_tdm(rules_text(exchange, config) if 200 <= unit.status < 300 else b"", unit.robots.get("tdm", ""))
    return Fact(
        host=unit.host,
        at=unit.start + unit.duration_ms / 1000,
        robots=state,
        robots_until=unit.robots.get("robots_until", 0.0),
        crawl_delay=unit.robots.get("crawl_delay", 0.0),
        failed=unit.robots.get("failed", 0),
        rules=rules,
    )


def _retry(unit: Unit, context: Context) -> tuple[Any, ...]:
    """The unit's URL as a row of RETRY, one request older."""
    site, host = context.names(unit.url)
    return unit.key, site, host, unit.carried.again(), unit.url, unit.retry_due


def _discover(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> Steps[None]:
    """Links, pairs and scope entries of a response."""
    if context.plugged is not None:
        found.seen = seen(unit, exchange)
    if unit.carried.source == Source.REQUISITE:
        found.counts["requisites"] = 1
        yield from _of_requisite(unit, exchange, context, found)
    elif unit.status in REDIRECTS and exchange.value(b"location"):
        yield from _redirect(unit, exchange, context, found)
    elif unit.reason in NO_PAGE:
        found.counts[NO_PAGE[Reason(unit.reason)]] = 1
    elif unit.reason in UNWANTED:
        found.counts["unwanted"] = 1
    elif unit.status in OF_PAGES or unit.status in REDIRECTS:  # a redirect that names no target is shown as a page
        yield from _links(unit, exchange, context, found)


def _redirect(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> Steps[None]:
    """A redirect is a discovery, one hop further at the same depth. A seed's (depth 0) brings its target into scope."""
    location = exchange.value(b"location")
    target = canonical(location, unit.url) if location else None
    if target is None:
        return
    target = context.spelling.of_target(target, unit.url)
    if len(target) <= context.config.scope.url_bytes_max:
        found.notes["redirect"] = target.decode("ascii")
    depth, hop = unit.carried.depth, unit.carried.hop + 1
    scope = context.of_lists if _of_list(unit, target, context) else context.scope
    if depth == 0 and not scope.contains(target, 0, hop) and context.everywhere.contains(target, 0, hop):
        found.scope += scope.entries_of_seed(target, context.spelling.of(target))
    elif not scope.contains(target, depth, hop):
        found.counts["out_of_scope"] = 1
        return
    # What a robots.txt or a sitemap names is read as they say, also where its server moved it.
    source = Source.SITEMAP if unit.carried.source == Source.SITEMAP else Source.REDIRECT
    yield from _add(unit, context, found, [(target, source)], depth, hop)


def _of_list(unit: Unit, target: bytes, context: Context) -> bool:
    """Whether what redirects is a sitemap, as far as names tell: a robots.txt named it; or both are called so, and of
    one site, as the parts of an index are."""
    if unit.carried.source != Source.SITEMAP:
        return False
    if unit.carried.via.endswith(b"/robots.txt"):
        return True
    own_site = context.names(unit.url)[0] == context.names(target)[0]
    return own_site and all(map(_LIST_NAME.search, (unit.url, target)))


def _of_requisite(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> Steps[None]:
    """What a requisite leads to: the target of a redirect, and what a style sheet needs. HTML in scope (of an
    `<object>`, say) is read as a page, since links to it lead nowhere any more; nothing else is taken from a requisite,
    and it says nothing about its site."""
    if unit.status in REDIRECTS:
        location = exchange.value(b"location")
        target = canonical(location, unit.url) if location else None
        if target is not None and len(target) <= URL_BYTES_SPELLED:
            yield from _add_requisites(unit, [context.spelling.of_target(target, unit.url)], context, found)
    elif unit.reason in UNWANTED:
        found.counts["unwanted"] = 1
    elif 200 <= unit.status < 300 and unit.reason not in NO_PAGE:
        if exchange.mime in HTML_TYPES and context.scope.contains(unit.url, unit.carried.depth):
            yield from _links(unit, exchange, context, found)
            return
        body, _ = yield from exchange.decoding(context.config.fetch.decoded_bytes_max)
        large = len(body) > LARGE_BYTES
        if large:
            yield
        found.content = fingerprint(body, False)
        if large:
            yield
        if unit.page is not None or context.config.revisit.enabled:
            found.wording = wording(body, False)
            if large:
                yield
        if exchange.mime == requisites.CSS_TYPE:
            content_type = exchange.content_type
            codec = charset.of_content_type(content_type) or "utf-8"
            join = Base(unit.url, codec, stored=True).join
            text = (yield from charset.recoding(body[: requisites.CSS_BYTES_MAX], codec)).decode()
            named = yield from requisites.reading_css(text)
            yield from _add_requisites(unit, _joined(named, join, context), context, found)


def _requisites(unit: Unit, body: bytes, page: Found, context: Context, found: UnitRows) -> Steps[None]:
    """What a page needs."""
    markup = body if page.charset == "utf-8" else (yield from charset.recoding(body, page.charset))
    base, named, partly = yield from requisites.of_page(markup)
    if partly:
        found.counts["partly_read"] = 1
    join = Base(unit.url, page.charset, stored=True).join
    if base is not None and (base_url := join(base)) is not None:
        join = Base(base_url, page.charset, stored=True).join
    yield from _add_requisites(unit, _joined(named, join, context), context, found)


def _joined(named: Iterable[str], join: Callable[[str], bytes | None], context: Context) -> Iterator[bytes | None]:
    """References resolved, by their spelling."""
    for url in map(join, named):
        yield None if url is None or len(url) > URL_BYTES_SPELLED else context.spelling.of(url)


def _add_requisites(unit: Unit, targets: Iterable[bytes | None], context: Context, found: UnitRows) -> Steps[None]:
    """Rows for requisites, by their spelling, wherever they are. What a page needs supports no site."""
    first = unit.carried.source != Source.REQUISITE
    depth, hop = unit.carried.depth + first, 0 if first else unit.carried.hop + 1
    linked = {row[-1] for row in found.links}  # what a page also links to is read as a page
    urls: dict[bytes, None] = {}
    counts = dict.fromkeys(("out_of_scope", "requisites_beyond_max"), 0)
    for at, url in enumerate(targets):
        if at % LINKS_STEP == LINKS_STEP - 1:
            yield
        if url is None or url == unit.url or url in linked:
            continue
        if not context.everywhere.contains(url, depth - 1, hop):
            counts["out_of_scope"] += 1
        elif len(urls) >= context.config.page.requisites_max and url not in urls:
            counts["requisites_beyond_max"] += 1
        else:
            urls[url] = None
    found.counts |= {name: found.counts.get(name, 0) + count for name, count in counts.items() if count}
    carried = Carried(depth, hop, Source.REQUISITE, priority_behind(unit.carried.priority), via=unit.url)
    for url in urls:
        site, host = context.names(url)
        found.links.append((context.url_key(url), site, host, carried, url))


def _links(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> Steps[None]:
    fields = exchange.fields
    content_type = exchange.content_type
    bytes_max = context.config.fetch.decoded_bytes_max
    body, partly = yield from exchange.decoding(bytes_max)
    found.counts["read"] = len(body)
    if partly:
        found.counts["partly_read" if len(body) == bytes_max else "damaged"] = 1
    large = len(body) > LARGE_BYTES
    if large:
        yield
    html = is_html(body, content_type)
    texts = texts_of(body) if html else []
    found.content = fingerprint(body, html, texts)
    if large:
        yield
    if html and context.config.page.near_duplicates:
        found.words = words_of(body, texts)
    if unit.page is not None or context.config.revisit.enabled:
        found.wording = wording(body, html)
    found.directory = directory_key(unit.url)
    directives = [value.decode("latin-1") for name, value in fields if name == b"x-robots-tag"]
    token = context.product_token
    nofollow = bool(directives) and robots_header(directives, token)[0]
    if context.config.page.sitemaps and (yield from _listed(unit, body, content_type, context, found, nofollow)):
        return
    page = yield from extracting(
        body, content_type, unit.url, context.config.page, product_token=token, nofollow=nofollow
    )
    if page.partly:
        found.counts["partly_read"] = 1
    links = page.links
    led = exchange.value(b"refresh") is not None or exchange.value(b"link") is not None
    if led and not (page.nofollow and context.config.page.nofollow):
        links = _with_header_links(page, unit.url, fields, context.config.page)
    if page.canonical is not None and len(page.canonical) <= URL_BYTES_SPELLED:
        alias_of = context.spelling.of(page.canonical)
        if alias_of != unit.url and len(alias_of) <= context.config.scope.url_bytes_max:
            found.notes["canonical"] = alias_of.decode("ascii")
    vouched = [url for url, _ in links if url not in page.unvouched] if page.unvouched else []
    if context.plugged is not None and context.plugged.handlers:
        links = _handled(unit, exchange, body, links, context, found)
    links = yield from _spelled(links, context, found)
    depth = unit.carried.depth + 1
    inside = yield from _in_scope(links, depth, context.scope)
    if len(inside) < len(links):
        found.counts["out_of_scope"] = len(links) - len(inside)
    if page.beyond:
        found.counts["beyond_max"] = found.counts.get("beyond_max", 0) + page.beyond
    yield from _add(unit, context, found, inside, depth, 0)
    if context.config.page.requisites and html:
        yield from _requisites(unit, body, page, context, found)
    sites, sites_max = len(found.pairs), context.config.budgets.link_list_sites
    if unit.carried.depth and is_list(sites, page.named, sites_max):  # what a crawl began with was chosen by a person
        found.pairs, found.bare = [], is_list(sites, page.named, sites_max, BARE_SHARE)
    elif page.unvouched:
        sites_vouched = {context.names(context.spelling.of(url))[0] for url in vouched}
        found.pairs = [pair for pair in found.pairs if pair[1] in sites_vouched]


def _handled(
    unit: Unit, exchange: Exchange, body: bytes, links: list[tuple[bytes, Source]], context: Context, found: UnitRows
) -> list[tuple[bytes, Source]]:
    """The links of a page, and those that page handlers of plug-ins find beside them, together at most
    page.links_max."""
    assert context.plugged is not None
    more, notes = context.plugged.handled(seen(unit, exchange, body))
    found.notes |= notes
    _count_plugins(context, found)
    known = dict(links)
    room = max(context.config.page.links_max - len(links), 0)
    fresh = [url for url in dict.fromkeys(more) if url not in known and url != unit.url]
    if len(fresh) > room:
        found.counts["beyond_max"] = len(fresh) - room
    return [*links, *((url, Source.LINK) for url in fresh[:room])]


def _count_plugins(context: Context, found: UnitRows) -> None:
    """What plug-ins did since the last call is of this page."""
    assert context.plugged is not None
    for name, count in context.plugged.take_counts().items():
        found.counts[name] = found.counts.get(name, 0) + count


def _sitemaps(unit: Unit, rules: bytes, context: Context, found: UnitRows) -> Steps[None]:
    """The sitemaps that a robots.txt names are one link away from the URL for which it was asked."""
    assert unit.robots is not None
    depth = unit.robots.get("depth", 0) + 1
    scope = context.of_lists if context.scope.has_host(unit.url) else context.scope
    urls, beyond = yield from sitemaps.of_robots(rules, unit.url)
    inside = yield from _inside(urls, depth, context, found, scope)
    inside, others = yield from _near(inside, unit, context, OTHERS_SITEMAPS_MAX)
    if beyond + others:
        found.counts["beyond_max"] = beyond + others
    yield from _add(unit, context, found, inside, depth, 0)


def _listed(
    unit: Unit, body: bytes, content_type: str, context: Context, found: UnitRows, nofollow: bool
) -> Steps[bool]:
    """Whether a body is a sitemap or a feed; then the rows are there of what it lists. nofollow: its header says so."""
    source = sitemaps.source_of(unit.carried.source, unit.carried.depth)
    named = source in (Source.SITEMAP, Source.SEED)
    body, partly = yield from sitemaps.unpacking(body, unit.url, context.config.fetch.decoded_bytes_max, named)
    as_text = sitemaps.may_be_list(source, body)
    lists = yield from sitemaps.listing(body, content_type, unit.url, as_text)
    if lists is None:
        return False
    urls, beyond = lists
    body = yield from sitemaps.in_utf8(body, content_type)
    found.lists = PageFlag.FEED if sitemaps.is_feed(body) else PageFlag.SITEMAP
    if partly:
        found.counts["partly_read"] = 1
    if nofollow and context.config.page.nofollow:
        return True
    if beyond:
        found.counts["beyond_max"] = beyond
    depth = unit.carried.depth + 1
    of_index = unit.carried.source == Source.SITEMAP and sitemaps.is_index(body)
    inside = yield from _inside(urls, depth, context, found, context.of_lists if of_index else context.scope)
    if of_index:
        inside, others = yield from _near(inside, unit, context, 0)
        if others:
            found.counts["out_of_scope"] = found.counts.get("out_of_scope", 0) + others
    yield from _add(unit, context, found, inside, depth, 0)
    if found.lists == PageFlag.SITEMAP and len(urls) > 1:
        yield from _rank(unit, body, context, found)
    if unit.page is not None and context.config.revisit.enabled:
        yield from _signals(unit, body, context, found)
    return True


def _rank(unit: Unit, body: bytes, context: Context, found: UnitRows) -> Steps[None]:
    """The links of a sitemap by the priorities that it says, each within its level: an owner orders the own pages, and
    moves none before what is nearer to a seed. A Python loop per link, only where a sitemap ranks them."""
    ranks = yield from entries.ranks(body, unit.url)
    if not ranks:
        return
    spelled = yield from _spellings(list(ranks), context)
    of = dict(zip(spelled, ranks.values(), strict=True))
    for at, (*names, carried, url) in enumerate(found.links):
        if at % LINKS_STEP == LINKS_STEP - 1:
            yield
        if rank := of.get(url, 0):
            found.links[at] = (*names, carried._replace(priority=carried.priority + rank), url)


def _signals(unit: Unit, body: bytes, context: Context, found: UnitRows) -> Steps[None]:
    """Of what a list names, what changed since it was archived before."""
    assert unit.page is not None
    changed = yield from lastmods.changed_since(body, unit.url, unit.page.stored, unit.start)
    if changed:
        spelled = yield from _spellings(list(changed), context)
        at = dict(zip(spelled, changed.values(), strict=True))
        found.signals = [(*row, at[row[-1]], 0) for row in found.links if row[-1] in at]


def _inside(
    urls: list[bytes], depth: int, context: Context, found: UnitRows, scope: Scope
) -> Steps[list[tuple[bytes, Source]]]:  # fmt: skip
    """Of what a site lists, those URLs that are in a scope, by their spelling."""
    spelled = yield from _spellings(urls, context)
    links = [(url, Source.SITEMAP) for url in dict.fromkeys(spelled)]
    inside = yield from _in_scope(links, depth, scope)
    if len(inside) < len(links):
        found.counts["out_of_scope"] = len(links) - len(inside)
    return inside


def _near(
    links: list[tuple[bytes, Source]], unit: Unit, context: Context, others_max: int
) -> Steps[tuple[list[tuple[bytes, Source]], int]]:
    """(of the sitemaps that a site names those that are its own or in scope, and at most `others_max` of others, how
    many those are beyond it): a site in scope chooses what is asked for at its own expense, not at a stranger's."""
    own = context.names(unit.url)[0]
    kept: list[tuple[bytes, Source]] = []
    others = 0
    for at, link in enumerate(links):
        if at % LINKS_STEP == LINKS_STEP - 1:
            yield
        if context.names(link[0])[0] != own and not context.scope.contains(link[0]):
            others += 1
            if others > others_max:
                continue
        kept.append(link)
    return kept, max(others - others_max, 0)


def _in_scope(links: list[tuple[bytes, Source]], depth: int, scope: Scope) -> Steps[list[tuple[bytes, Source]]]:
    contains = scope.contains
    inside: list[tuple[bytes, Source]] = []
    for start in range(0, len(links), LINKS_STEP):
        if start:
            yield
        inside += [link for link in links[start : start + LINKS_STEP] if contains(link[0], depth, 0)]
    return inside


def _spellings(urls: list[bytes], context: Context) -> Steps[list[bytes]]:
    """The same list if nothing is spelled otherwise."""
    if sum(map(len, urls)) + LINK_BYTES * len(urls) <= STEP_BYTES:
        return context.spelling.of_all(urls)
    spelling = context.spelling.of
    spelled: list[bytes] = []
    worked = 0
    for url in urls:
        worked += len(url) + LINK_BYTES
        if worked > STEP_BYTES:
            worked = 0
            yield
        spelled.append(spelling(url) if len(url) <= URL_BYTES_SPELLED else url)
    return spelled


def _spelled(links: list[tuple[bytes, Source]], context: Context, found: UnitRows) -> Steps[list[tuple[bytes, Source]]]:
    """The links by their spelling (web/spelling.py), each once, from its best source."""
    urls = [url for url, _ in links]
    spelled = yield from _spellings(urls, context)
    if spelled is urls or not (changed := sum(map(is_not, spelled, urls))):
        return links
    found.counts["respelled"] = changed
    sources: dict[bytes, Source] = {}
    for url, (_, source) in zip(spelled, links, strict=True):
        sources[url] = min(source, sources.get(url, source))
    return list(sources.items())


def _with_header_links(
    page: Found, url: bytes, fields: list[tuple[bytes, bytes]], params: Page
) -> list[tuple[bytes, Source]]:
    """The links of a page at `url` and those that its header names, together at most page.links_max."""
    links = dict(page.links)
    values = [value.decode("latin-1") for name, value in fields if name == b"link"]
    refresh = refresh_target(next((value for name, value in fields if name == b"refresh"), b"").decode("latin-1"))
    refreshed = [(refresh, Source.LINK)] if refresh else []
    named = [*link_header(values, params.nofollow), *refreshed]
    vouched = set[tuple[str, Source]]() if page.nofollow else {*link_header(values, nofollow=True), *refreshed}
    page.named += len(named)
    for reference, source in named:
        target = canonical(reference.encode("latin-1"), url)  # the bytes as they came, which are mostly UTF-8
        if target is None or target == url:
            continue
        if source is Source.CANONICAL and page.canonical is None:
            page.canonical = target
        if (reference, source) in vouched:
            page.unvouched.discard(target)
        elif target not in links:
            page.unvouched.add(target)
        if target in links or len(links) < params.links_max:
            links[target] = min(source, links.get(target, source))
        else:
            page.beyond += 1
    return list(links.items())


def _weighted(one: Carried, link: tuple[bytes, Source], context: Context, extra: int) -> Carried:
    """A link by the operator's rules, and by the weight that plug-ins gave it."""
    url, source = link
    weight = extra if context.weight_of is None else context.weight_of(url) + extra
    if not weight:
        return one
    weight = min(max(weight, -WEIGHT_MAX), WEIGHT_MAX)
    moved = priority_of(one.depth, source, is_home(url), weight) & ~PRIORITY_TRUST
    return one._replace(priority=moved | one.priority & PRIORITY_TRUST)


def _add(
    unit: Unit, context: Context, found: UnitRows, links: list[tuple[bytes, Source]], depth: int, hop: int
) -> Steps[None]:
    """Rows for links in scope. A Python loop per link: this is the one place where a link is an object."""
    weights = None
    if (plugged := context.plugged) is not None:
        page = found.seen or seen(unit, None)
        links = plugged.kept(links, page, depth)
        weights = plugged.weights(links, page, depth)
        _count_plugins(context, found)
    names_of, seed, rows = context.names_of, context.seed, found.links
    own_site = context.names(unit.url)[0]
    carried = {
        source: [Carried(depth, hop, source, priority_of(depth, source, home), via=unit.url) for home in (False, True)]
        for source in {source for _, source in links}
    }
    plain = carried[Source.LINK][False] if Source.LINK in carried and is_home(unit.url) else None
    menu = plain and plain._replace(priority=priority_of(depth, Source.LINK, navigation=True))  # of its own site
    others: set[int] = set()
    for start in range(0, len(links), LINKS_STEP):
        if start:
            yield
        step = links[start : start + LINKS_STEP]
        urls = [url for url, _ in step]
        origins = list(map(origin_of, urls))
        sites, hosts = zip(*map(names_of, origins), strict=True)
        others.update(sites)
        ones = [
            carried[source][len(origin) + 1 == len(url)] for (url, source), origin in zip(step, origins, strict=True)
        ]
        if menu is not None:
            ones = [menu if one is plain and site == own_site else one for one, site in zip(ones, sites, strict=True)]
        if context.weight_of is not None or weights is not None:
            told = [0] * len(step) if weights is None else weights[start : start + LINKS_STEP]
            ones = [_weighted(one, link, context, extra) for one, link, extra in zip(ones, step, told, strict=True)]
        rows += zip(url_keys(urls, seed, sites), sites, hosts, ones, urls, strict=True)
    others.discard(own_site)
    if any(source == Source.SITEMAP for _, source in links):
        return  # what an owner lists is no link: it supports nobody
    found.pairs += [(pair_key(own_site, site), site, own_site) for site in sorted(others)]
