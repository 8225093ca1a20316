"""One spelling for a page that has several: rules beyond WHATWG's, each an option of its own (urls.merge).

A rule rewrites a link before it gets its key, so that spellings of one page become one URL. Rules that are on by
default cannot merge pages that differ:

  tracking        query parameters that only tell the owner where a visitor came from (TRACKING, urls.parameters_file)
  sessions        session ids: `;jsessionid=…`, `/(S(…))/`, PHPSESSID and its like, `sid` with 32 hex digits
  empty_query     a `?` with nothing behind it
  unreserved      `%7E` and `~` (RFC 3986 6.2.2.2), `%c3` and `%C3` (6.2.2.1)

The others can, so they are off by default, for a crawl or a site to switch on:

  sort_query      parameters in the order of their names; those of one name stay in order
  slashes         `//` in a path is `/`
  default_pages   `/dir/index.html` and its like are `/dir/`
  trailing_slash  `/dir/` is `/dir`
  path_case       the path in lower case
  www             `www.example.com` is `example.com`
  https           `http://` is `https://`, where no port is named

A site, or the URLs that match a pattern ([[url_rule]]), may have rules of their own, and parameters of their own that
are left out: `parameters`.

Seeds stay as they were written, and so does the target of a redirect that a rule would turn into the URL it comes from:
a server that gives visitors a session id by a redirect would have no page else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from irlcrawl.base.url import HOSTS_CACHED, SiteOf, canonical, host_of
from irlcrawl.config.keys import URL_RULES, Site, UrlRule, Urls
from irlcrawl.config.lists import parameter_names
from irlcrawl.config.overrides import Overrides
from irlcrawl.web.preference import searcher

ROUNDS_MAX = 8
"""One rule may make work for another: `/a%252e%252e` needs two rounds. A URL that needs more stays as it was."""
PARAMETERS_MAX = 200
"""A URL with more `&` stays as it was, too: rules look at each parameter."""

TRACKING = (
    "utm_source*", "utm_medium*", "utm_campaign*", "utm_term*", "utm_content*", "utm_id", "utm_id_", "utm_ad",
    "utm_adgroup*", "utm_adset*", "utm_affiliate", "utm_brand", "utm_channel", "utm_cid", "utm_compaign",
    "utm_creative*", "utm_device", "utm_email*", "utm_emcid", "utm_emmid", "utm_expid", "utm_hp_ref", "utm_int",
    "utm_journey_id", "utm_keyword*", "utm_klaviyo_id", "utm_lob", "utm_mailing", "utm_marketing_tactic",
    "utm_matchtype", "utm_name", "utm_network", "utm_newsletterid", "utm_oi", "utm_place", "utm_placement",
    "utm_position", "utm_prid", "utm_product", "utm_pubreferrer", "utm_reader", "utm_referrer", "utm_relevant_index",
    "utm_roistat", "utm_serial", "utm_servlet", "utm_session", "utm_siteid", "utm_social*", "utm_supplier", "utm_swu",
    "utm_tag", "utm_umguk", "utm_user*", "utm_viz_id", "utm_wave",
    "itm_source*", "itm_medium*", "itm_campaign*", "itm_content", "itm_term", "itm_channel", "itm_audience",
    "mtm_campaign", "mtm_keyword", "mtm_kwd", "mtm_source", "mtm_medium", "mtm_content", "mtm_cid", "mtm_group",
    "mtm_placement", "matomo_*", "piwik_*", "pk_campaign", "pk_cid", "pk_content", "pk_kwd", "pk_keyword",
    "pk_medium", "pk_source", "hsa_acc", "hsa_ad", "hsa_cam", "hsa_grp", "hsa_kw", "hsa_la", "hsa_mt", "hsa_net",
    "hsa_ol", "hsa_src", "hsa_tgt", "hsa_ver", "_ga", "_gl", "gclid", "gclsrc", "gbraid", "wbraid", "dclid", "srsltid",
    "fbclid",
    "fb_action_ids", "fb_action_types", "fb_ref", "fb_source", "yclid", "ysclid", "_openstat", "msclkid", "twclid",
    "ttclid", "igshid", "igsh", "li_fat_id", "epik", "irclickid", "mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi",
    "__hssc", "__hstc", "__hsfp", "hsctatracking", "vero_id", "vero_conv", "oly_anon_id", "oly_enc_id", "rb_clickid",
    "s_cid", "ml_subscriber", "ml_subscriber_hash", "wickedid", "wt_mc", "wtrid", "_branch_match_id", "guccounter",
    "guce_referrer", "guce_referrer_sig", "zanpid", "dm_i", "et_rid", "trk_contact", "trk_msg",
    "trk_module", "trk_sid", "vgo_ee", "_bta_c", "_bta_tid",
)  # fmt: skip
"""Names in lower case; `*` at the end: any rest. Campaign and click ids, after the lists that people keep for browsers:
ClearURLs (rules for all sites), AdGuard's URL tracking filter, Brave's query filter. Short beginnings are written out,
as other names begin so: `itm_id` is an item, and `utm_x` and `utm_zone` are coordinates on a map."""

_SESSION_NAMES = frozenset((b"phpsessid", b"jsessionid", b"cftoken"))
_SESSION_PREFIX = b"aspsessionid"
_SESSION_IDS = frozenset((b"sid", b"sessionid", b"session_id"))
_HEX_32 = re.compile(rb"[0-9a-fA-F]{32}")
_PATH_SESSIONS = re.compile(
    rb";(?:jsessionid|phpsessid)=[^/;]*|(?<=/)\((?:X\(1\)|[AFS]\([A-Za-z0-9_-]{20,}\))+\)/", re.IGNORECASE
)
"""Of ASP.NET: a session has 24 characters, tickets of visitors have more; X(1) is a browser without cookies."""
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_SLASHES = re.compile(rb"//+")
_DEFAULT_PAGE = re.compile(rb"(?<=/)(?:index|default)\.(?:s?html?|xhtml|php[345]?|aspx?|jsp|cfm|cgi)$", re.IGNORECASE)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPED = {
    b"%02x" % byte: bytes((byte,)) if byte in _UNRESERVED else b"%%%02X" % byte for byte in range(256)
}  # fmt: skip

Names = tuple[frozenset[bytes], tuple[bytes, ...]]
"""Of parameters, in lower case: whole names, beginnings."""


_SITE_OF = SiteOf(private_suffixes=True)


def _is_site(host: str) -> bool:
    """Whether it is a site of its own, as `www.gov.uk` under the public suffix `gov.uk`, which is no host of that
    site."""
    return _SITE_OF(host) == host.removesuffix(".")


class Rules(NamedTuple):
    """What holds for a URL: names of rules, and its site's parameters that are left out."""

    names: frozenset[str]
    parameters: Names | None = None

    @property
    def by_sign(self) -> bool:
        """Whether they change no URL without a sign."""
        return self.names <= _BY_SIGN


_SESSIONS = Rules(frozenset(("sessions",)))


class Spelling:
    """The rules of a crawl. ConfigError for a file of parameters that cannot be read, and for a pattern that is
    none."""

    def __init__(self, params: Urls, sites: Mapping[str, Site], patterns: Sequence[UrlRule] = ()) -> None:
        self._general = Rules(frozenset(params.merge))
        own_sites = any(site.merge_urls is not None or site.parameters for site in sites.values())
        self._overrides = Overrides(sites) if own_sites else None
        self._of_host = lru_cache(maxsize=HOSTS_CACHED)(self._rules_of)
        self._patterns = [(rule.merge, _split(rule.parameters or ()), rule.parameters is None) for rule in patterns]
        self._found = searcher([rule.match or "" for rule in patterns], "url_rule") if patterns else None
        all_rules = self._general.names.union(
            *(site.merge_urls or () for site in sites.values()), *(rule.merge or () for rule in patterns)
        )
        self._only_by_sign = all_rules <= _BY_SIGN
        own = parameter_names(params.parameters_file) if params.parameters_file else []
        self._tracking = _split([*TRACKING, *own])

    def of(self, url: bytes) -> bytes:
        """The spelling of a URL in stored form: in stored form, and its own spelling."""
        before = url
        for _ in range(ROUNDS_MAX):
            rules = self._general
            if self._overrides is not None or self._found is not None:
                rules = self._of_url(before)  # of what it became: a rule may lead to where others hold
            if (not rules.names and rules.parameters is None) or (rules.by_sign and not _SIGN.search(before)):
                return before
            after = self._once(before, rules)
            if after == before:
                return after
            known = canonical(after)
            if known is None:
                return url
            before = known
        return url

    def of_all(self, urls: list[bytes]) -> list[bytes]:
        """The spelling of each; the same list if none has a sign. Most pages link to no URL that any rule is about."""
        if self._only_by_sign and not _SIGN.search(b"".join(urls)):
            return urls
        return list(map(self.of, urls))

    def of_target(self, target: bytes, url: bytes) -> bytes:
        """The spelling of what `url` redirects to; as it came where that is the spelling of `url`, too: a server may
        lead through several of a page's spellings to the one in which it has it. One that gives a session at each
        request leads nowhere."""
        spelled = self.of(target)
        if spelled == url:
            return target
        if spelled != self.of(url) or self._once(target, _SESSIONS) == self._once(url, _SESSIONS):
            return spelled
        return target

    def by(self, url: bytes) -> list[str]:
        """The rules that change a URL, each on its own; `parameters` for those of a site or a pattern."""
        rules = self._of_url(url)
        found = [
            name for name in URL_RULES if name in rules.names and self._once(url, Rules(frozenset((name,)))) != url
        ]
        if rules.parameters is not None and self._once(url, Rules(frozenset(), rules.parameters)) != url:
            found.append("parameters")
        return found

    def _of_url(self, url: bytes) -> Rules:
        rules = self._of_host(host_of(url)) if self._overrides is not None else self._general
        if self._found is None or (at := self._found(url)) is None:
            return rules
        merge, parameters, inherited = self._patterns[at]
        names = rules.names if merge is None else frozenset(merge)
        return Rules(names, rules.parameters if inherited else parameters)

    def _rules_of(self, host: str) -> Rules:
        assert self._overrides is not None
        own = self._overrides.of(host)
        names = self._general.names if own.merge_urls is None else frozenset(own.merge_urls)
        return Rules(names, _split(own.parameters) if own.parameters else None)

    def _once(self, url: bytes, rules: Rules) -> bytes:
        """Every rule once."""
        if url.count(b"&") > PARAMETERS_MAX:
            return url
        scheme, _, rest = url.partition(b"://")
        at = rest.find(b"/")
        authority, target = rest[:at], rest[at:]
        path, mark, query = target.partition(b"?")
        for name, change in _PATH:
            if name in rules.names:
                path = change(path)
        had = bool(query)
        if had:
            query = self._query(query, rules)
        if not query and (had or "empty_query" in rules.names):
            mark = b""
        if "www" in rules.names and authority.startswith(b"www.") and not _is_site(host_of(url)):
            authority = authority[4:]
        if "https" in rules.names and scheme == b"http" and not _has_port(authority):
            scheme = b"https"
        return scheme + b"://" + authority + path + mark + query

    def _query(self, query: bytes, rules: Rules) -> bytes:
        names = rules.names
        if "unreserved" in names:
            query = _unescaped(query)
        parts = query.split(b"&")
        if "tracking" in names:
            parts = [part for part in parts if not _named(part, self._tracking)]
        if rules.parameters is not None:
            parts = [part for part in parts if not _named(part, rules.parameters)]
        if "sessions" in names:
            cold_fusion = any(part[:8].lower() == b"cftoken=" for part in parts)
            parts = [part for part in parts if not _is_session(part, cold_fusion)]
        if "sort_query" in names:
            parts.sort(key=lambda part: part.partition(b"=")[0])
        return b"&".join(parts)


def _named(parameter: bytes, names: Names) -> bool:
    name = parameter.partition(b"=")[0].lower()
    return name in names[0] or name.startswith(names[1])


def _is_session(parameter: bytes, cold_fusion: bool) -> bool:
    """Of ColdFusion a session has CFID and CFTOKEN; elsewhere `cfid` names content."""
    name, _, value = parameter.partition(b"=")
    name = name.lower()
    if name in _SESSION_NAMES or name.startswith(_SESSION_PREFIX) or (cold_fusion and name == b"cfid"):
        return True
    return name in _SESSION_IDS and _HEX_32.fullmatch(value) is not None


def _has_port(authority: bytes) -> bool:
    return b":" in authority.rpartition(b"]")[2]


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1].lower()], text)


def _without_slash(path: bytes) -> bytes:
    return path.rstrip(b"/") or b"/"


_PATH: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("unreserved", _unescaped),
    ("sessions", lambda path: _PATH_SESSIONS.sub(b"", path)),
    ("slashes", lambda path: _SLASHES.sub(b"/", path)),
    ("path_case", bytes.lower),
    ("default_pages", lambda path: _DEFAULT_PAGE.sub(b"", path)),
    ("trailing_slash", _without_slash),
)
_BY_SIGN = frozenset(("tracking", "sessions", "empty_query", "unreserved", "sort_query"))
_SIGN = re.compile(rb"[?%;(]")
"""Rules that change no URL without such a sign."""
assert _BY_SIGN | {name for name, _ in _PATH} | {"www", "https"} == set(URL_RULES)


_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def _split(names: Iterable[str]) -> Names:
    lower = [_NOT_ASCII.sub(lambda octet: b"%%%02x" % octet[0][0], name.encode().lower()) for name in names]
    return frozenset(name for name in lower if not name.endswith(b"*")), tuple(
        name[:-1] for name in lower if name.endswith(b"*")
    )
