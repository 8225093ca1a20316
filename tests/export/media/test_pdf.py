"""PDFs in exports: what they say, and what becomes of those that are made to harm."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.export.media import pdf
from tests.cli.conftest import Run
from tests.export.made import Page, make_job

pytestmark = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("pypdfium2"), reason="pypdfium2 is missing: pip install pypdfium2"
)


def made(words: str = "", content: bytes | None = None) -> bytes:
    """A PDF of one page, on which these words lead to http://a.example/far."""
    stream = content or zlib.compress(f"BT /F 24 Tf 72 700 Td ({words}) Tj ET".encode())
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/Lang(en-GB)>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>"
        b"/Annots[<</Type/Annot/Subtype/Link/Rect[70 690 590 730]/A<</S/URI/URI(/far)>>>>]>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", b"<</Title(A\\040title)/Subject(What it is about)>>",
    ]  # fmt: skip
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj%s endobj\n" % (n, one) for n, one in enumerate(objects, 1))
    return body + b"trailer<</Root 1 0 R/Info 6 0 R/Size 7>>\n%%EOF"


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    pdf.READER.end()


def test_what_a_pdf_says(tmp_path: Path, run: Run) -> None:
    header = {"Content-Type": "application/octet-stream"}
    job = make_job(tmp_path / "job", [Page("http://a.example/x.pdf", made("Some words"), header)])
    code, out, err = run("export", "pages", job.path, "--pdf", "--quiet")
    assert code == ExitCode.DONE, err
    row = json.loads(out)
    assert (row["title"], row["description"], row["lang"]) == ("A title", "What it is about", "en-GB")
    assert (row["content_mime_detected"], row["content_charset"], row["links"]) == ("application/pdf", None, 1)
    link = json.loads(run("export", "links", job.path, "--pdf", "--quiet")[1])
    assert (link["to_url"], link["anchor_text"], link["element"]) == ("http://a.example/far", "Some words", "pdf")
    assert pdf.text(made("Some words"), "") == "Some words"
    without = json.loads(run("export", "pages", job.path, "--quiet")[1])
    assert without["title"] is None and without["content_mime_detected"] == "application/pdf"
    assert run("export", "links", job.path, "--quiet")[1] == ""


def test_nothing_is_known_of_one_that_is_broken() -> None:
    assert pdf.read(b"%PDF-1.4 no more", "").title == "" and pdf.text(made("x")[:200], "") == ""


def test_one_that_takes_all_memory_ends_its_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pdf.READER.end()
    monkeypatch.setattr(pdf.READER, "bytes_max", 160 << 20)
    content = zlib.compress(b"BT /F 1 Tf " + b" " * (150 << 20) + b"(some words) Tj ET", 1)
    assert pdf.text(made(content=content), "") == ""
    assert pdf.text(made("Next one"), "") == "Next one"


def test_one_that_takes_long_ends_its_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pdf.READER.end()
    monkeypatch.setattr(pdf.READER, "seconds_max", 0.05)
    content = zlib.compress(b"BT /F 1 Tf " + b"(some words of many) Tj 1 1 Td " * 200_000)
    assert pdf.text(made(content=content), "") == ""
    monkeypatch.setattr(pdf.READER, "seconds_max", 10.0)
    assert pdf.text(made("Next one"), "") == "Next one"
