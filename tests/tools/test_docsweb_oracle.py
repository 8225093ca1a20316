"""The oracle must be right by itself: its URLs, its robots rules, its pages, and the set that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docsweb import robots
from tools.docsweb.reach import answer, links, reach
from tools.docsweb.urls import Url, parse, resolve

PAGE = parse("http://docs.test:8080/a/b/page.html?q=1")


@pytest.mark.parametrize(
    ("href", "means"),
    [
        ("other.html", "/a/b/other.html"),
        ("./other.html#part", "/a/b/other.html"),
        ("../up.html", "/a/up.html"),
        ("../../../../top.html", "/top.html"),
        ("..", "/a/"),
        (".", "/a/b/"),
        ("%2E%2e/up.html", "/a/up.html"),
        ("/root.html", "/root.html"),
        ("", "/a/b/page.html?q=1"),
        ("#only", "/a/b/page.html?q=1"),
        ("?x=y z", "/a/b/page.html?x=y%20z"),
        ("  spaced\n name.html ", "/a/b/spaced%20name.html"),
        ("back\\slash.html", "/a/b/back/slash.html"),
        ("überblick.html", "/a/b/%C3%BCberblick.html"),
        ("a//b.html", "/a/b/a//b.html"),
        ("kept%2Fslash", "/a/b/kept%2Fslash"),
        ("op%<=>.html", "/a/b/op%%3C=%3E.html"),
        ("http:relative.html", "/a/b/relative.html"),
    ],
)
def test_references_on_one_host(href: str, means: str) -> None:
    assert resolve(href, PAGE) == Url("http", "docs.test", 8080, means)


@pytest.mark.parametrize(
    ("href", "means"),
    [
        ("http://Other.Test/x", "http://other.test/x"),
        ("//other.test/x", "http://other.test/x"),
        ("\\\\other.test\\x", "http://other.test/x"),
        ("https://user@other.test:443", "https://other.test/"),
        ("http://other.test:80?q", "http://other.test/?q"),
        ("HTTP:\\\\other.test/../x", "http://other.test/x"),
    ],
)
def test_references_to_other_hosts(href: str, means: str) -> None:
    assert str(resolve(href, PAGE)) == means


@pytest.mark.parametrize("href", ["mailto:a@b", "javascript:x()", "ftp://h/", "http://", "http://h:port/"])
def test_references_that_are_no_web_url(href: str) -> None:
    assert resolve(href, PAGE) is None


RULES = """\
User-agent: otherbot
Disallow: /

User-agent: *
Disallow: /private/
Allow: /private/open
Disallow: /*.key$
Disallow:
"""


@pytest.mark.parametrize(
    ("target", "may"),
    [
        ("/", True),
        ("/private/", False),
        ("/private", True),
        ("/private/open.html", True),
        ("/gate.key", False),
        ("/gate.key?now", True),
        ("/deep/er.key", False),
    ],
)
def test_robots_rules(target: str, may: bool) -> None:
    assert robots.allowed(robots.rules_for_all(RULES), target) is may


def test_every_kind_of_link_and_no_other() -> None:
    html = b"""
    <link rel="Next" href=n.html><link rel=stylesheet href=no1><link rel="canonical" href="c.html">
    <A HREF='one.html?a=1&amp;b=2'>x</A> <a name=x> <a rel="external nofollow" href=no2>
    <map><area href=area.html></map> <frame src=f.html><iframe src=i.html></iframe><img src=no3>
    <meta http-equiv=Refresh content="3; URL='r.html'">
    <script>'<a href=no4>'</script><!-- <a href=no5> --> <a href="mailto:no6@x"> <a href=one.html?a=1&amp;b=2#again>
    """
    found = {url.target for url in links(html, parse("http://docs.test/d/"))}
    assert found == {
        "/d/n.html",
        "/d/c.html",
        "/d/one.html?a=1&b=2",
        "/d/area.html",
        "/d/f.html",
        "/d/i.html",
        "/d/r.html",
    }


def test_base_and_meta_robots() -> None:
    page = parse("http://docs.test/d/")
    assert links(b"<base href=/b/><base href=/c/><a href=x>", page) == {Url("http", "docs.test", 80, "/b/x")}
    assert links(b"<meta name=ROBOTS content='noindex,NoFollow'><a href=x>", page) == set()


def test_reach_of_a_small_tree(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "index.html").write_text(
        "<a href=sub><a href=missing.html><a href=empty/><a href=picture.png><a href=no/x.html><a href=http://else.test/>"
    )
    (tmp_path / "picture.png").write_text("<a href=not-html.html>")
    (tmp_path / "sub" / "index.html").write_text("<a href=../index.html><a href=deep.html?a=b>")
    (tmp_path / "sub" / "deep.html").write_text("<a href=/no/y.html>")
    (tmp_path / "unlinked.html").write_text("")
    found = reach(tmp_path, [parse("http://h.test/")], "User-agent: *\nDisallow: /no/")
    assert found.requested == {
        "/": 200, "/sub": 301, "/sub/": 200, "/missing.html": 404, "/empty/": 403, "/picture.png": 200,
        "/index.html": 200, "/sub/deep.html?a=b": 200,
    }  # fmt: skip
    assert found.disallowed == {"/no/x.html", "/no/y.html"}
    assert (found.html, found.depth_max) == (4, 3)


def test_a_link_between_hosts_of_the_web_is_not_overlooked(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<a href=http://b.test/>")
    with pytest.raises(ValueError, match=r"b\.test"):
        reach(tmp_path, [parse("http://a.test/")], None, ["b.test"])


def test_encoded_names(tmp_path: Path) -> None:
    (tmp_path / "ü b.html").write_text("")
    assert answer(tmp_path, parse("http://h.test/%C3%BC%20b.html"))[0] == 200
    assert answer(tmp_path, parse("http://h.test/%C3%BC%20b.html/"))[0] == 404
    assert answer(tmp_path, parse("http://h.test/%C3%BC%2.html"))[0] == 400
