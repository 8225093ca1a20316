"""What the owner of an answer says about its use, wherever it is said, and whether the page is kept in spite of it."""

from __future__ import annotations

import logging

from irlcrawl.base.reasons import OF_PAGES
from irlcrawl.base.steps import Steps, at_once
from irlcrawl.config.keys import Config
from irlcrawl.web import wishes
from irlcrawl.web.robots import Rules, product_token
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.page import charset
from irlcrawl.worker.page.links import HTML_TYPES, closed, is_html
from irlcrawl.worker.page.metas import HEAD_BYTES_MAX, named

_log = logging.getLogger(__name__)
_WIDE_BYTES = 64
"""Of a page in UTF-16 so many have a zero among them, for it begins with markup."""


class Wishes:
    """For all answers of a crawl."""

    def __init__(self, config: Config) -> None:
        token = product_token(config.crawl.user_agent).lower()
        self._agents = frozenset(("robots", token))
        self._metas = tuple(dict.fromkeys((*wishes.META_NAMES, token)))
        self._obeyed = frozenset(config.page.wishes_obeyed)
        self._decoded_bytes_max = config.fetch.decoded_bytes_max

    def of(self, exchange: Exchange, rules: Rules | None) -> Steps[wishes.Wishes]:
        """The wishes in the header, in the head of a page that was found, and in the robots.txt and the
        tdmrep.json of its host; in steps."""
        try:
            return (yield from self._read(exchange, rules))
        except Exception:  # a page that breaks a reader is archived all the same, and so is one that takes all memory
            _log.exception("no wishes were read of %s", exchange.url.decode("ascii"))
            return wishes.NONE

    def _read(self, exchange: Exchange, rules: Rules | None) -> Steps[wishes.Wishes]:
        found = wishes.of_header(exchange.fields, self._agents)
        mime = exchange.mime
        if exchange.body and (not mime or mime in HTML_TYPES) and exchange.status in OF_PAGES:
            body, _ = yield from exchange.decoding(self._decoded_bytes_max)
            if is_html(body, mime) and (metas := (yield from named(_plain(body, exchange), self._metas))):
                found = wishes.superseding(wishes.of_metas(metas, self._agents), found)
        if rules is not None:
            found |= rules.wishes_for(exchange.url)
            if of_file := rules.tdm_for(exchange.url):
                found = wishes.superseding(found, of_file)
        return wishes.combined(found) if found else wishes.NONE

    def withhold(self, said: wishes.Wishes, exchange: Exchange, now: float) -> bool:
        """Whether the body is not to be stored. now: unix seconds."""
        if not (said and self._obeyed):
            return False
        try:
            return wishes.withheld(said, self._obeyed, exchange.mime, now)
        except Exception:  # what is stored against a wish is worse than what is not
            _log.exception("a wish was not understood of %s", exchange.url.decode("ascii"))
            return True


def _plain(page: bytes, exchange: Exchange) -> bytes:
    """A page whose markup is ASCII, and that HTML's rules read; of one in UTF-16, or in XHTML, the beginning."""
    if b"\0" in page[:_WIDE_BYTES]:
        codec = charset.sniff(page, exchange.content_type)
        page = at_once(charset.recoding(page[: 2 * HEAD_BYTES_MAX], codec))
    return at_once(closed(page[:HEAD_BYTES_MAX])) if "xhtml" in exchange.mime else page
