"""The configuration: every key named once, wrong values refused by name, nothing lost in a file and back."""

from __future__ import annotations

import json
import math
import re
import shlex
import string
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.job import JobDamaged
from irlcrawl.config import keys as c
from irlcrawl.config.checks import INT_BEYOND, USER_AGENT_EXAMPLE, changes, check_resume, check_start
from irlcrawl.config.keys import keys
from irlcrawl.config.lists import ranked_floors
from irlcrawl.config.toml import apply, from_dict, load, load_stored, making, reference, to_dict, to_toml

AGENT = "TestCrawler/1.0 (+https://crawler.example.org/; me@example.org)"


def values(key: c.Key) -> st.SearchStrategy[object]:
    """Any value the key takes, as far as its table entry says."""
    if key.choices:
        choice = st.sampled_from(key.choices)
        return st.lists(choice) if key.type == "list" else choice
    low, high = key.low, key.high
    text = st.text(st.characters(categories=("L", "N", "P", "S")) | st.sampled_from(' "\\'), max_size=20)
    special = {
        "archive.on_warc_closed": st.lists(text, max_size=3).map(shlex.join),
        "archive.prefix": st.text(string.ascii_letters, min_size=1, max_size=8),
        "network.allow": st.lists(st.sampled_from(["127.0.0.0/8", "10.0.0.0/8", "fc00::/7"])),
        "politeness.shared_addresses": st.lists(st.sampled_from(["192.0.2.0/24", "2001:db8::/32"])),
        "network.resolvers": st.lists(st.sampled_from(["192.0.2.1", "127.0.0.1:5353", "[::1]:53", "::1"])),
        "scope.include": st.lists(st.sampled_from([r"/a\d{1,3}$", '"x"', "ä"])),
        "scope.exclude": st.lists(st.sampled_from([r"\?", r"[^/]+\.pdf$"])),
        "scope.block": st.lists(st.sampled_from([r"/a\d{1,3}$", "ä"])),
        "hooks.command": st.lists(text, max_size=3).map(shlex.join),
        "hooks.webhook": st.sampled_from(["", "https://example.org/hook"]),
        "fetch.accept_language": st.sampled_from(["", "de, en;q=0.5"]),
        "fetch.headers": st.sampled_from([[], ["X-A: b"], ["X-A: b", "Accept: */*"]]),
        "site.headers": st.sampled_from([[], ["X-A: c", "Accept-Language: fr"]]),
        "fetch.types": st.sampled_from([[], ["text/*", "!video/*"]]),
        "site.parameters": st.lists(st.sampled_from(["ref", "view_*"])),
        "site.types": st.sampled_from([[], ["application/*+xml"]]),
        **{f"{section}.hours": st.sampled_from(["", "22:00-06:00"]) for section in ("politeness", "site")},
        **{f"{section}.time_zone": st.sampled_from(["UTC", "Asia/Tokyo"]) for section in ("politeness", "site")},
        "network.proxy": st.sampled_from(["", "http://proxy.test:3128", "socks5h://[::1]:1080"]),
        "site.proxy": st.sampled_from(["", "socks5://127.0.0.1:9"]),
        "network.dns_ttl_min_seconds": st.floats(0, 60),
        "network.dns_ttl_max_seconds": st.floats(60, 1e6),
        "revisit.share_min": st.floats(0, 0.5),
        "revisit.share_max": st.floats(0.5, 1),
    }
    if key.path in special:
        return special[key.path]
    return {
        "str": text,
        "list": st.lists(text, max_size=3),
        "bool": st.booleans(),
        "int": st.integers(int(low or 0), int(high) if high is not None else 2**62),
        "float": st.floats(low, high if high is not None else 1e12, allow_nan=False, allow_infinity=False),
    }[key.type]


@st.composite
def configs(draw: st.DrawFn) -> c.Config:
    config = c.Config()
    for key in keys():
        if key.single and draw(st.booleans()):
            setattr(getattr(config, key.section), key.name, draw(values(key)))
    config.fetch.client = "httptools"  # the other one knows no proxies
    config.fetch.signature_agent = "https://bot.test" if config.fetch.signing_key_file else ""
    rules = st.builds(c.Priority, match=st.sampled_from([r"/a\d$", '"x"', "ä"]), weight=st.integers(-10, 10))
    config.priority = draw(st.lists(rules, max_size=3))
    names = st.none() | st.lists(st.sampled_from(["www", "https"]), max_size=2)
    spelled = st.builds(c.UrlRule, match=st.just("/a"), merge=names, parameters=st.just(["ref", "x_*"]))
    config.url_rule = draw(st.lists(spelled, max_size=2))
    for name in draw(st.lists(st.sampled_from(["a.example", "example.com", "192.0.2.7"]), unique=True)):
        site = config.site[name] = c.Site()
        for key in c.section_keys("site").values():
            if draw(st.booleans()):
                setattr(site, key.name, draw(values(key)))
    return config


@settings(max_examples=30)
@given(configs())
def test_nothing_is_lost_in_a_file_or_in_a_frame(config: c.Config) -> None:
    assert from_dict(tomllib.loads(to_toml(config))) == config
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


def test_every_key_is_documented_once() -> None:
    paths = [key.path for key in keys()]
    assert len(paths) == len(set(paths)) > 60
    assert all(key.doc.endswith((".", "...")) for key in keys())
    text = reference()
    for key in keys():
        assert text.count(key.doc) == 1, key.path


def test_the_reference_is_a_configuration_of_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    with open(file, "w") as printed:
        subprocess.run([sys.executable, "-m", "irlcrawl.config"], stdout=printed, check=True)
    loaded = load(file)
    loaded.site.clear()  # the reference shows a [site."example.com"] without overrides
    assert loaded == c.Config()


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text('[limits]\npages = 5\nbytes = 7\n[site."Example.COM."]\npages_max = 3\n')
    config = load(file, ["limits.pages=6", 'site."example.com".gap_host_seconds=2'])
    assert (config.limits.pages, config.limits.bytes) == (6, 7)
    assert config.site == {"example.com": c.Site(gap_host_seconds=2.0, pages_max=3)}
    later = load(None, ["limits.bytes=8"], base=config)
    assert (later.limits.pages, later.limits.bytes) == (6, 8)
    assert config.limits.bytes == 7, "the base is not changed"


def test_the_rules_of_a_later_source_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text('[[priority]]\nmatch = "/news/"\nweight = 3\n[[priority]]\nmatch = "a=1"\nweight = -1\n')
    config = load(file)
    assert config.priority == [c.Priority("/news/", 3), c.Priority("a=1", -1)]
    assert load(None, ["limits.pages=1"], base=config).priority == config.priority
    other = load(None, ['priority=[{match="a=2", weight=0}]'], base=config)
    assert other.priority == [c.Priority("a=2", 0)]
    assert changes(config, other) == ["[[priority]] had 2 rules, now 1"]


@pytest.mark.parametrize(
    ("override", "section", "name", "value"),
    [
        ("crawl.user_agent=Bot/1 (+http://x.example/; a=b)", "crawl", "user_agent", "Bot/1 (+http://x.example/; a=b)"),
        ('crawl.operator="quoted"', "crawl", "operator", "quoted"),
        ("crawl.operator=12", "crawl", "operator", "12"),
        ("scope.exclude=[0-9]{1,2}$", "scope", "exclude", ["[0-9]{1,2}$"]),
        ('network.allow=["127.0.0.0/8", "10.0.0.0/8"]', "network", "allow", ["127.0.0.0/8", "10.0.0.0/8"]),
        ("network.allow=127.0.0.0/8", "network", "allow", ["127.0.0.0/8"]),
        ("network.allow=[]", "network", "allow", []),
        ("limits.seconds=1e3", "limits", "seconds", 1000.0),
        ("limits.bytes=1_000_000", "limits", "bytes", 1_000_000),
        ("page.scripts=true", "page", "scripts", True),
        (" scope . kind = host ", "scope", "kind", "host"),
    ],
)
def test_overrides_mean_what_they_say(override: str, section: str, name: str, value: object) -> None:
    assert getattr(getattr(load(None, [override]), section), name) == value


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("limits", "write section.key=value"),
        ("limits.pages", "write section.key=value"),
        ("=3", "write section.key=value"),
        ("limit.pages=1", "limit: no such section; did you mean limits?"),
        ("limits.page=1", "limits.page: no such key; did you mean limits.pages?"),
        ("limits.qqqq=1", "limits.qqqq: no such key"),
        # Larger ones were taken, and ended the first turn or the first name with a traceback.
        ("budgets.base=10_000_000_000", "budgets.base = 10000000000: takes a whole number from 1 to 1000000000"),
        ("budgets.seed_floor=10_000_000_000", "takes a whole number from 1 to 1000000000"),
        ('site."x.example".budget_min=10_000_000_000', "takes a whole number from 1 to 1000000000"),
        ("limits.pages_per_site=10_000_000_000_000_000_000", "takes a whole number from 0 to 1000000000000000"),
        ("frontier.hosts_active_max=10_000_000_000_000_000_000", "takes a whole number from 16 to 100000000"),
        ("network.dns_seconds=1e300", "takes a number from 0.1 to 3600"),
        ("limits.pages.x=1", "limits.pages = "),
        ("limits=1", "limits is a section"),
        ("limits.pages=-1", "limits.pages = -1: takes a whole number, at least 0"),
        ("limits.pages=1.5", "limits.pages = 1.5: takes a whole number"),
        ("limits.pages=true", "limits.pages = true: takes a whole number"),
        ("crawl.workers=65", "crawl.workers = 65: takes a whole number from 0 to 64"),
        ("scope.kind=planet", "takes one of host, site, prefix, any"),
        ("page.scripts=yes", "takes true or false"),
        ("politeness.gap_host_seconds=nan", "politeness.gap_host_seconds = NaN"),
        ("limits.seconds=inf", "limits.seconds = Infinity"),
        ("crawl.operator=a\x00b", "takes printable text"),
        ("crawl.operator=a\nb", "takes printable text"),
        ("crawl.operator=\udcff", "takes printable text"),
        ("network.allow=10.0.0.1/8", "network.allow: 10.0.0.1/8 is not a network"),
        ("politeness.shared_addresses=cdn", "politeness.shared_addresses: cdn"),
        ("network.resolvers=dns.example", "network.resolvers: dns.example"),
        ("network.resolvers=127.0.0.1:0", "network.resolvers: 127.0.0.1:0"),
        ("scope.include=(", "scope.include: '(' is not an RE2 pattern"),
        (r"scope.exclude=(a)\1", "scope.exclude: "),
        ("network.dns_ttl_min_seconds=1e9", "network.dns_ttl_min_seconds"),
        ("revisit.share_min=0.9", "revisit.share_min"),
        ("archive.prefix=../x", "archive.prefix"),
        ('priority=[{match="(", weight=1}]', "priority 1.match: '(' is not an RE2 pattern"),
        (
            'priority=[{match="a", weight=1}, {match="a", weight=11}]',
            "priority 2.weight = 11: takes a whole number",
        ),
        ('priority=[{match="a"}]', "priority 1: a rule has both match and weight"),
        ('priority=[{match="a", wait=1}]', "priority 1.wait: no such key"),
        ("priority.match=a", "priority: a list of rules, each in a section [[priority]]"),
        ("priority=a", "priority: a list of rules"),
        ("archive.on_warc_closed=mv 'here", "archive.on_warc_closed"),
        ('site."http://x/".block=true', "takes a host name"),
        ('site."x.example:8080".block=true', "; no port"),
        ('site."*.x.example".block=true', "takes a host name"),
        ('site."".block=true', "takes a host name"),
        ('site."x.example"=1', "is a section of keys"),
        ('site."x.example".blok=true', 'site."x.example".blok: no such key; did you mean site."x.example".block?'),
    ],
)
def test_wrong_values_are_refused_by_name(override: str, told: str) -> None:
    with pytest.raises(c.ConfigError) as caught:
        load(None, [override])
    assert told in str(caught.value)


@given(st.text(max_size=40))
def test_no_text_is_more_than_a_wrong_configuration(text: str) -> None:
    for override in (text, f"limits.pages={text}", f"{text}=1", f"site.{text}.block=true"):
        with suppress(c.ConfigError):
            load(None, [override])


@given(st.floats() | st.integers() | st.text(max_size=5) | st.booleans() | st.lists(st.integers(), max_size=2))
def test_numbers_stay_in_their_bounds(value: object) -> None:
    for key in keys():
        if key.type not in ("int", "float") or not key.single:
            continue
        right = isinstance(value, int) or (key.type == "float" and isinstance(value, float) and math.isfinite(value))
        right = right and not isinstance(value, bool)
        right = right and (key.low is None or value >= key.low) and (key.high is None or value <= key.high)  # type: ignore[operator]
        right = right and (key.type == "float" or abs(value) < INT_BEYOND)  # type: ignore[arg-type]
        config = c.Config()
        if right:
            apply(config, {key.section: {key.name: value}})
            assert c.value_of(config, key) == (float(value) if key.type == "float" else value)  # type: ignore[arg-type]
        else:
            with pytest.raises(c.ConfigError, match=key.name):
                apply(config, {key.section: {key.name: value}})


@pytest.mark.parametrize(
    ("name", "host"),
    [("Example.COM.", "example.com"), ("fa\u00df.de", "xn--fa-hia.de"), ("[2001:DB8::0:1]", "2001:db8::1"),
     ("2001:db8::1", "2001:db8::1"), ("10.1.2.3", "10.1.2.3"), ("com", "com")],
)  # fmt: skip
def test_a_site_was_named_otherwise_than_urls_name_it(name: str, host: str) -> None:
    """Its keys held for nothing, or for the site of another name (IDNA of 2003 reads fa\u00df.de as fass.de)."""
    assert list(load(None, [f'site."{name}".block=true']).site) == [host]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf[limits]\r\npages = 7\r\n")
    assert load(file).limits.pages == 7


@pytest.mark.parametrize("content", ["limits = ", "[limits]\npages = 1\npages = 2\n", "\xff\x00"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(c.ConfigError, match=r"broken\.toml: not TOML"):
        load(file)
    with pytest.raises(c.ConfigError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(c.ConfigError, match="Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    "agent",
    [AGENT, USER_AGENT_EXAMPLE, "Bot (me@example.org)", "Bot/1.0 +http://example.org", "A-b_c/2 (http://x.example/y)"],
)
def test_a_user_agent_with_a_contact_is_enough(agent: str) -> None:
    config = c.Config()
    config.crawl.user_agent = agent
    check_start(config)


@pytest.mark.parametrize(
    "agent",
    ["", "Bot", "Bot/1.0", "Bot/1.0 (somebody)", "Bot/1 (+http://localhost)", "B0t/1 (a@example.org)",
     "(a@example.org)", "Böt/1 (a@example.org)", "Bot/1(a@example.org)", "my bot@home",
     "Mozilla/5.0 (compatible; bot/1.0; +https://example.org/bot)", "mozilla (a@example.org)"],
)  # fmt: skip
def test_a_user_agent_without_one_is_refused_with_an_example(agent: str) -> None:
    config = c.Config()
    config.crawl.user_agent = agent
    with pytest.raises(c.ConfigError, match=r"crawl\.user_agent") as caught:
        check_start(config)
    assert USER_AGENT_EXAMPLE in str(caught.value)


def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    config = load(None, [f"crawl.user_agent={AGENT}", f"fetch.tls_ca_file={tmp_path}/none.pem"])
    with pytest.raises(c.ConfigError, match=r"fetch\.tls_ca_file"):
        check_start(config)


def test_a_ca_file_without_certificates_was_told_by_workers_that_died(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate\n")
    config = load(None, [f"crawl.user_agent={AGENT}", f"fetch.tls_ca_file={tmp_path}/ca.pem"])
    with pytest.raises(c.ConfigError, match=r"fetch\.tls_ca_file = .*: no certificates in PEM format"):
        check_start(config)


@pytest.mark.parametrize("key", ["pages_max", "budget_min"])
def test_a_budget_for_a_host_is_refused_with_its_site(key: str) -> None:
    """[site."www.example.org"] pages_max = 5 was taken, and held for nothing: budgets know sites only."""
    for name, site in (("www.example.org", "example.org"), ("me.github.io", "github.io")):
        config = load(None, [f"crawl.user_agent={AGENT}", f'site."{name}".{key}=5'])
        with pytest.raises(c.ConfigError, match=rf'site\."{name}"\.{key}: .*\[site\."{site}"\]'):
            check_start(config)
    settings = [f"crawl.user_agent={AGENT}", "scope.private_suffixes=true"]
    for name in ("example.org", "Example.co.uk.", "me.github.io", "127.0.0.1", "::1", "localhost", "bücher.example"):
        check_start(load(None, [*settings, f'site."{name}".{key}=5']))
    check_start(load(None, [*settings, 'site."www.example.org".block=true']))


def test_what_shaped_the_files_cannot_change() -> None:
    old = c.Config()
    for key in keys():
        if not key.single:
            continue
        value = c.value_of(old, key)
        other = {"bool": lambda v=value: not v, "str": lambda v=value: v + "x", "list": lambda: ["x"]}.get(
            key.type, lambda v=value: v + 1
        )()
        new = load(base=old)
        setattr(getattr(new, key.section), key.name, other)
        if key.fixed:
            with pytest.raises(c.ConfigError, match=key.path):
                check_resume(old, new)
        else:
            check_resume(old, new)
    both = load(None, ["budgets.base=11", "scope.private_suffixes=true"])
    told = r"scope\.private_suffixes was false, now true.*budgets\.base was 30, now 11"
    with pytest.raises(c.ConfigError, match=told):
        check_resume(old, both)


def test_a_stored_configuration_lacks_only_what_the_program_that_wrote_it_had_not(tmp_path: Path) -> None:
    """A key that came later has its default; one that was there and is gone is damage, named."""
    file, text = tmp_path / "irlcrawl.toml", to_toml(c.Config())
    file.write_text(text)
    assert load_stored(file) == c.Config()
    shorter = re.sub(r"^links_max = .*\n", "", text, flags=re.MULTILINE)
    file.write_text(shorter)
    with pytest.raises(JobDamaged, match=re.escape("irlcrawl.toml: lacks page.links_max; mend")):
        load_stored(file)
    count = int(re.findall(r"The end: (\d+) keys", text)[0])
    file.write_text(shorter.replace(f"The end: {count} keys", f"The end: {count - 1} keys"))
    assert load_stored(file) == c.Config()
    for end in range(0, text.index(" keys, those of"), 3):
        file.write_text(text[:end])
        with pytest.raises(JobDamaged):
            load_stored(file)


def test_a_start_refuses_a_file_of_parameters_that_cannot_be_read(tmp_path: Path) -> None:
    config = c.Config()
    config.crawl.user_agent = USER_AGENT_EXAMPLE
    config.urls.parameters_file = str(tmp_path / "none")
    with pytest.raises(c.ConfigError, match="cannot be read"):
        check_start(config)
    (tmp_path / "none").write_text("ref\nwt_*\n")
    check_start(config)


def test_a_list_of_ranks_gives_sites_the_budget_of_their_rank(tmp_path: Path) -> None:
    """Ranks behind which a budget is no more than `base` are not read; of a host the site counts."""
    config = c.Config()
    ranks = tmp_path / "ranks.csv"
    config.budgets.ranks_file, config.budgets.top_budget, config.budgets.base = str(ranks), 1000, 20
    ranks.write_text("1,Example.com\n3,www.example.org\n4,example.org\n50,cut.example\nnonsense")
    assert ranked_floors(config) == {"example.com": 1000, "example.org": 333}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("", "has no line rank,domain"),
        ("example.com\n", "line 1: 'example.com' is not rank,domain"),
        ("1,a.example\n1,b.example\n", "line 2: '1,b.example' is not rank,domain with a rank above 1"),
        ("1,http://a.example/x\n", "line 1"),
        ("-1,a.example\n", "line 1"),
    ],
)  # fmt: skip
def test_a_start_refuses_a_list_of_ranks_that_is_none(tmp_path: Path, text: str | None, message: str) -> None:
    config = c.Config()
    config.crawl.user_agent = USER_AGENT_EXAMPLE
    config.budgets.ranks_file = str(tmp_path / "ranks.csv")
    if text is not None:
        (tmp_path / "ranks.csv").write_text(text)
    with pytest.raises(c.ConfigError, match=re.escape(message)):
        check_start(config)


def test_what_archives_tell_of_how_they_were_made() -> None:
    """And nothing of this machine, of secrets, or of those who asked to be left alone."""
    assert making(c.Config()) == ""
    config = load(overrides=[
        "page.requisites=true", 'fetch.headers=["X-Mine: x"]', "scope.opt_out_file=/home/me/list",
        'scope.block=["me.test"]', "archive.on_warc_closed=rm", "network.proxy=http://10.0.0.1:1",
        'fetch.types=["text/*"]',
    ])  # fmt: skip
    assert making(config) == 'fetch.types = ["text/*"]; page.requisites = true'
