"""What an archived unit means for the crawl: its outcome, the links on its page, what it says about its host.

`process` is pure: live, right after a unit was appended, and after a crash, on the unit read back from the archive, it
gives the same rows. So it looks only at what the unit and the stored exchange carry (durations to the millisecond, the
body as received), the location, and the crawl's configuration, seed and committed scope.
"""

from __future__ import annotations

import logging
from typing import Any

from irlcrawl.base.keys import is_home, pair_key, priority_of, url_key
from irlcrawl.base.reasons import NO_PAGE, UNWANTED, Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, VISIT, Carried, Change, PageFlag, Robots, Source
from irlcrawl.base.url import canonical
from irlcrawl.config.keys import Config, Page
from irlcrawl.web.coding import decode
from irlcrawl.worker.archive import crawl_log
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.harvest import again
from irlcrawl.worker.harvest.builder import Fact, UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.counters import CUT
from irlcrawl.worker.page import sitemaps
from irlcrawl.worker.page.fingerprint import fingerprint
from irlcrawl.worker.page.linklist import BARE_SHARE, is_list
from irlcrawl.worker.page.links import Found, extract, is_html, link_header, refresh_target, robots_header
from irlcrawl.worker.page.repetition import directory_key
from irlcrawl.worker.page.wording import wording

REDIRECTS = frozenset((301, 302, 303, 307, 308))
_CHANGE = list(VISIT).index("change")

_log = logging.getLogger(__name__)


def process(unit: Unit, exchange: Exchange | None, location: Location, context: Context) -> UnitRows:
    """Everything a harvest takes from one unit (shapes: builder.py). `exchange` is None for a unit that is one
    metadata record. MemoryError, unless it is read again."""
    found = UnitRows()
    if unit.robots is not None:
        found.fact = _fact(unit, exchange, context.config)
    if unit.segment != NO_SEGMENT:
        _of_url(unit, exchange, location, context, found)
    elif found.fact is not None and found.fact.rules and context.config.page.sitemaps:
        _sitemaps(unit, found.fact.rules, context, found)
    found.outcome = _outcome(unit, exchange, location, found)
    return found


def _of_url(unit: Unit, exchange: Exchange | None, location: Location, context: Context, found: UnitRows) -> None:
    """What a URL's unit yields beside its outcome."""
    if unit.cls in (Class.FETCHED, Class.FAILED) and unit.page is None:
        found.site = context.names(unit.url)[0]
    if unit.cls == Class.RETRY:
        found.retry = _retry(unit, context)
    elif unit.cls == Class.FETCHED and exchange is not None:
        if unit.page is None:
            _read(unit, exchange, context, found)
            change = Change.FIRST
        else:
            change = _again(unit, exchange, location, context, found)
        if unit.page is not None or context.config.revisit.enabled:
            found.visit = again.visit_row(unit, exchange, location, change, found)


def _again(unit: Unit, exchange: Exchange, location: Location, context: Context, found: UnitRows) -> Change:
    """A page that was visited before: it is read unless it is the same. One that says the same between other links may
    have new ones."""
    change = again.change_of(unit, exchange, location)
    if change not in again.UNCHANGED:
        _read(unit, exchange, context, found)
        if change is Change.YES:
            change = again.decided(unit, exchange, change, found.wording)
        if change not in again.SILENT:
            found.site = context.names(unit.url)[0]
    return change


def _read(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> None:
    """Links, pairs and scope entries of a response, as far as it can be read."""
    try:
        _discover(unit, exchange, context, found)
    except Exception as error:  # a page that breaks a parser costs its links; else every start would meet it again
        if isinstance(error, MemoryError) and not context.again:
            raise  # other pages may have taken it: the worker ends, and the unit is read again
        _log.exception("nothing was taken from %s", unit.url.decode("ascii"))
        found.links, found.pairs, found.scope, found.counts = [], [], [], {"unparsed": 1}


def rules_text(exchange: Exchange, config: Config) -> bytes:
    """The text of a robots.txt response, as much of it as is read (robots.bytes_max), in whole lines: the half of a
    path that a bound leaves would forbid, or allow, far more."""
    text, cut = decode(exchange.body, exchange.coding, config.robots.bytes_max)
    if cut or exchange.truncated:
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text


def received(exchange: Exchange) -> int:
    """Bytes of header and body as they came."""
    return len(exchange.header) + len(exchange.body)


def _outcome(unit: Unit, exchange: Exchange | None, location: Location, found: UnitRows) -> tuple[Any, ...]:
    """A row of rows.OUTCOME."""
    size = 0 if exchange is None else len(exchange.header) + (len(exchange.body) if unit.size is None else unit.size)
    cut = {name: str(found.counts[name]) for name in CUT if name in found.counts}
    if found.visit is not None and unit.page is not None:
        cut["change"] = again.WORDS[found.visit[_CHANGE]]
    line = crawl_log.line(unit, exchange, location, cut)
    return (unit.segment, unit.row, unit.key, unit.host, unit.cls, unit.reason, unit.status, size, line)


def _fact(unit: Unit, exchange: Exchange | None, config: Config) -> Fact:
    assert unit.robots is not None
    state = unit.robots.get("robots", Robots.UNKNOWN)
    return Fact(
        host=unit.host,
        at=unit.start + unit.duration_ms / 1000,
        robots=state,
        robots_until=unit.robots.get("robots_until", 0.0),
        crawl_delay=unit.robots.get("crawl_delay", 0.0),
        failed=unit.robots.get("failed", 0),
        rules=rules_text(exchange, config) if state == Robots.RULES and exchange is not None else None,
    )


def _retry(unit: Unit, context: Context) -> tuple[Any, ...]:
    """The unit's URL as a row of RETRY, one request older."""
    site, host = context.names(unit.url)
    return unit.key, site, host, unit.carried.again(), unit.url, unit.retry_due


def _discover(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> None:
    """Links, pairs and scope entries of a response."""
    if unit.status in REDIRECTS:
        _redirect(unit, exchange, context, found)
    elif unit.reason in NO_PAGE:
        found.counts[NO_PAGE[Reason(unit.reason)]] = 1
    elif unit.reason in UNWANTED:
        found.counts["unwanted"] = 1
    elif 200 <= unit.status < 300:
        _links(unit, exchange, context, found)


def _redirect(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> None:
    """A redirect is a discovery, one hop further at the same depth. A seed's (depth 0) brings its target into scope."""
    location = exchange.value(b"location")
    target = canonical(location, unit.url) if location else None
    if target is None:
        return
    target = context.spelling.of_target(target, unit.url)
    depth, hop = unit.carried.depth, unit.carried.hop + 1
    scope = context.scope
    if depth == 0 and not scope.contains(target, 0, hop) and context.everywhere.contains(target, 0, hop):
        found.scope.append(scope.entry_of_seed(target))
    elif not scope.contains(target, depth, hop):
        found.counts["out_of_scope"] = 1
        return
    _add(unit, context, found, [(target, Source.REDIRECT)], depth, hop)


def _links(unit: Unit, exchange: Exchange, context: Context, found: UnitRows) -> None:
    fields = exchange.fields
    values = dict(reversed(fields))  # the first of each name
    content_type = values.get(b"content-type", b"").decode("latin-1")
    bytes_max = context.config.fetch.decoded_bytes_max
    body, partly = decode(exchange.body, exchange.coding, bytes_max)
    if partly:
        found.counts["partly_read" if len(body) == bytes_max else "damaged"] = 1
    html = is_html(body, content_type)
    found.content = fingerprint(body, html)
    if unit.page is not None or context.config.revisit.enabled:
        found.wording = wording(body, html)
    found.directory = directory_key(unit.url)
    if context.config.page.sitemaps and _listed(unit, body, content_type, context, found):
        return
    directives = [value.decode("latin-1") for name, value in fields if name == b"x-robots-tag"]
    token = context.product_token
    nofollow = bool(directives) and robots_header(directives, token)[0]
    page = extract(body, content_type, unit.url, context.config.page, product_token=token, nofollow=nofollow)
    links = page.links
    if (b"refresh" in values or b"link" in values) and not (page.nofollow and context.config.page.nofollow):
        links = _with_header_links(page, unit.url, fields, context.config.page)
    vouched = [url for url, _ in links if url not in page.unvouched] if page.unvouched else []
    links = _spelled(links, context, found)
    depth = unit.carried.depth + 1
    contains = context.scope.contains
    inside = [link for link in links if contains(link[0], depth, 0)]
    if len(inside) < len(links):
        found.counts["out_of_scope"] = len(links) - len(inside)
    if page.beyond:
        found.counts["beyond_max"] = page.beyond
    _add(unit, context, found, inside, depth, 0)
    sites, sites_max = len(found.pairs), context.config.budgets.link_list_sites
    if unit.carried.depth and is_list(sites, page.named, sites_max):  # what a crawl began with was chosen by a person
        found.pairs, found.bare = [], is_list(sites, page.named, sites_max, BARE_SHARE)
    elif page.unvouched:
        sites_vouched = {context.names(context.spelling.of(url))[0] for url in vouched}
        found.pairs = [pair for pair in found.pairs if pair[1] in sites_vouched]


def _sitemaps(unit: Unit, rules: bytes, context: Context, found: UnitRows) -> None:
    """The sitemaps that a robots.txt names are one link away from the URL for which it was asked."""
    assert unit.robots is not None
    depth = unit.robots.get("depth", 0) + 1
    _add(unit, context, found, _inside(sitemaps.of_robots(rules, unit.url), depth, context, found), depth, 0)


def _listed(unit: Unit, body: bytes, content_type: str, context: Context, found: UnitRows) -> bool:
    """Whether a body is a sitemap or a feed; then the rows are there of what it lists."""
    source = unit.carried.source
    body, partly = sitemaps.unpacked(body, unit.url, context.config.fetch.decoded_bytes_max)
    lists = sitemaps.listed(body, content_type, unit.url, source == Source.SITEMAP)
    if lists is None:
        return False
    urls, beyond = lists
    found.lists = PageFlag.FEED if sitemaps.is_feed(body) else PageFlag.SITEMAP
    if partly:
        found.counts["partly_read"] = 1
    if beyond:
        found.counts["beyond_max"] = beyond
    depth = unit.carried.depth + 1
    _add(unit, context, found, _inside(urls, depth, context, found), depth, 0)
    return True


def _inside(urls: list[bytes], depth: int, context: Context, found: UnitRows) -> list[tuple[bytes, Source]]:
    """Of what a site lists, those URLs that are in scope, by their spelling."""
    spelled = list(dict.fromkeys(map(context.spelling.of, urls)))
    inside = [(url, Source.SITEMAP) for url in spelled if context.scope.contains(url, depth, 0)]
    if len(inside) < len(spelled):
        found.counts["out_of_scope"] = len(spelled) - len(inside)
    return inside


def _spelled(links: list[tuple[bytes, Source]], context: Context, found: UnitRows) -> list[tuple[bytes, Source]]:
    """The links by their spelling (web/spelling.py), each once, from its best source."""
    spelling = context.spelling.of
    spelled = [spelling(url) for url, _ in links]
    changed = sum(new is not old for new, (old, _) in zip(spelled, links, strict=True))
    if not changed:
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
        target = canonical(reference, url)
        if target is None or target == url:
            continue
        if (reference, source) in vouched:
            page.unvouched.discard(target)
        elif target not in links:
            page.unvouched.add(target)
        if target in links or len(links) < params.links_max:
            links[target] = min(source, links.get(target, source))
        else:
            page.beyond += 1
    return list(links.items())


def _add(
    unit: Unit, context: Context, found: UnitRows, links: list[tuple[bytes, Source]], depth: int, hop: int
) -> None:
    """Rows for links in scope. A Python loop per link: this is the one place where a link is an object."""
    names, seed, rows = context.names, context.seed, found.links
    own_site = names(unit.url)[0]
    carried = {
        source: [Carried(depth, hop, source, priority_of(depth, source, home), via=unit.url) for home in (False, True)]
        for source in {source for _, source in links}
    }
    others: set[int] = set()
    weight_of = context.weight_of
    for url, source in links:
        site, host = names(url)
        if site != own_site:
            others.add(site)
        one = carried[source][is_home(url)]
        if weight_of is not None and (weight := weight_of(url)):
            one = one._replace(priority=priority_of(depth, source, is_home(url), weight))
        rows.append((url_key(url, seed), site, host, one, url))
    if any(source == Source.SITEMAP for _, source in links):
        return  # what an owner lists is no link: it supports nobody
    found.pairs += [(pair_key(own_site, site), site, own_site) for site in sorted(others)]
