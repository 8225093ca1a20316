"""The web platform tests for URLs. Every difference is listed here with its reason; a new one fails."""

from __future__ import annotations

import pytest

from irlcrawl.base.url import Base, canonical
from irlcrawl.worker.page.charset import codec_of
from tests.conformance.conftest import Told
from tests.conformance.vectors import cases

PUNYCODE = {  # url-py refuses an ASCII name whose `xn--` label is no valid Punycode; browsers keep it as it is
    "http://a.b.c.xn--pokxncvks", "http://10.0.0.xn--pokxncvks", "http://a.b.c.XN--pokxncvks", "https://xn--/",
    "http://a.b.c.Xn--pokxncvks", "http://10.0.0.XN--pokxncvks", "http://10.0.0.xN--pokxncvks",
}  # fmt: skip
PORT_0 = {"http://f:0/c", "http://f:00000000000000/c"}  # on purpose
ENCODERS = {("iso-2022-jp", "\x0eA"), ("gb18030", "\ue5e5")}  # Python's codecs encode what WHATWG's refuse


def stored(href: str) -> bytes | None:
    """The stored form of a serialised URL: no fragment, no userinfo, and nothing but http and https."""
    if not href.startswith(("http:", "https:")):
        return None
    scheme, rest = href.partition("#")[0].split("//", 1)
    authority, slash, path = rest.partition("/")
    authority = authority.rpartition("@")[2]
    if not authority.startswith("[") and not dns_carries(authority.partition(":")[0]):
        return None  # on purpose
    return f"{scheme}//{authority}{slash}{path}".encode()


def dns_carries(name: str) -> bool:
    """RFC 1035 2.3.4; the last dot may be written."""
    name = name.removesuffix(".")
    return len(name) <= 253 and all(0 < len(label) <= 63 for label in name.split("."))


@pytest.mark.parametrize("name", ["urltestdata", "ada_extra_urltestdata", "ada_long_urltestdata"])
def test_parsing_and_resolving(told: Told, name: str) -> None:
    wrong, seen = [], 0
    for case in cases(f"wpt-url/{name}.json"):
        base = case.get("base")
        if base is not None and not base.startswith(("http:", "https:")):
            base = None  # no page of ours has such a base, and no http URL comes of a reference to it
        seen += 1
        if case["input"] in PUNYCODE | PORT_0:
            assert canonical(case["input"], base) is None
            continue
        want = None if case.get("failure") else stored(case["href"])
        got = canonical(case["input"], base)
        if got != want:
            wrong.append((case["input"], base, got, want))
    assert not wrong
    assert seen >= 1
    told(f"wpt-url/{name}.json", seen)


def test_names_become_ascii(told: Told) -> None:
    """IDNA: differences are names DNS cannot carry, ASCII names with a bad `xn--` label, and three names whose
    characters a newer Unicode than url-py's allows."""
    by_unicode_version = 0
    all_cases = cases("wpt-url/toascii.json") + cases("wpt-url/IdnaTestV2.json")
    told("wpt-url/toascii.json, IdnaTestV2.json", len(all_cases))
    for case in all_cases:
        name, want = case["input"], case["output"]
        got = canonical(f"http://{name}/x")
        if not name or got == (None if want is None else f"http://{want}/x".encode()):
            continue
        assert got is None, (name, got, want)  # stricter, never another name
        bad_label = name.isascii() and "xn--" in name.lower()
        if dns_carries(want) and not bad_label:
            by_unicode_version += 1
    assert by_unicode_version == 3


def test_names_dns_cannot_carry(told: Told) -> None:
    told("wpt-url/verifydnslength_tests.json", len(cases("wpt-url/verifydnslength_tests.json")))
    for case in cases("wpt-url/verifydnslength_tests.json"):
        assert (canonical(case["input"]) is None) == bool(case.get("failure")), case["message"]


def test_queries_in_the_encoding_of_the_page(told: Told) -> None:
    told("wpt-url/percent-encoding.json", sum(len(case["output"]) for case in cases("wpt-url/percent-encoding.json")))
    for case in cases("wpt-url/percent-encoding.json"):
        for label, want in case["output"].items():
            if (label, case["input"]) not in ENCODERS:
                codec = codec_of(label)
                assert codec is not None
                assert Base("http://h/", codec).join("/?" + case["input"]) == b"http://h/?" + want.encode(), label
