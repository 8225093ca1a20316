"""Response headers that llhttp refuses and that curl, wget and browsers take: a copy that llhttp takes, too.

Of a header only the status, the version and the fields that frame the body mean anything to the parser, so the copy
holds nothing else, and the header that is kept is the one that came. A copy never frames a body in another way than
the header does: where a field that frames is in doubt, there is none (RFC 9112 6.3, and 2.2 for a bare CR).
"""

from __future__ import annotations

import re

FOLD = re.compile(rb"\r?\n[ \t]")
_STATUS_LINE = re.compile(rb"(?i:HTTP)/([12])(?:\.(\d))?([ \t]+)(\d{3})(?!\d)( |\r?\Z)?")
START = b"HTTP/"
"""How a header begins whose end is worth waiting for."""

_FIRST_FOLD = re.compile(rb"[^\n]*\n[ \t]")
_BARE_CR = re.compile(rb"\r(?!\n)")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_TOKEN = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NAMES = re.compile(rb"([\r\n])([^:\r\n]*):")
_LENGTH, _CODED = b"content-length", b"transfer-encoding"
_FRAMING = (_LENGTH, _CODED)
_CODINGS = re.compile(rb"\ntransfer-encoding[ \t]*:([^\n]*)", re.IGNORECASE)
_NUMBER = re.compile(rb"(\d{1,18})[ \t;].*")
"""A length with a unit or a parameter behind it: `5 bytes`. As curl and wget take it."""


def repaired(header: bytes) -> tuple[bytes, list[str]] | None:
    """A header that frames the same body, and what is wrong with the one that came; None where nothing is that other
    clients take, or where it is open what frames the body: lengths that differ, a length beside a coding, a field that
    frames behind a bare CR or under a name that is nearly its own.

    `header` ends with its blank line. The faults: status-line, version, cr (a bare one), no-colon, space (before the
    colon), name (no token), space-first (before the first field), length-twice (the same one), length (more than a
    number), coding (see `odd_coding`), coding-empty.
    """
    header = header.lstrip(b"\r\n")
    if b"\0" in header or _in_doubt(header):
        return None
    status_line, *lines = FOLD.sub(b" ", _BARE_CR.sub(b" ", header)).split(b"\n")
    status = _STATUS_LINE.match(status_line)
    if status is None:
        return None
    major, minor, gap, code, behind = status.groups()
    faults = dict.fromkeys(["cr"] if _BARE_CR.search(header) else [])
    if _FIRST_FOLD.match(header):  # RFC 9112 2.2: such lines are passed over
        faults["space-first"] = None
    if gap != b" " or behind is None or not header.startswith(START):
        faults["status-line"] = None
    if minor not in (b"0", b"1"):
        faults["version"] = None
    kept, lengths, codings = [], list[bytes](), list[bytes]()
    for line in lines[:-2]:
        name, colon, value = line.partition(b":")
        name, spaced = name.rstrip(b" \t"), name
        if not colon:
            faults["no-colon"] = None
            continue
        if name != spaced:
            faults["space"] = None
        if not _TOKEN.fullmatch(name):
            faults["name"] = None
        name = name.lower()
        if name == _CODED and not value.strip(b" \t\r"):
            faults["coding-empty"] = None
        elif name == _CODED:
            codings.append(value)
        elif name == _LENGTH:
            lengths += [said.strip(b" \t\r") for said in value.split(b",")]
        elif name == b"connection":
            kept.append(name + b":" + value.rstrip(b"\r"))
    named, coded = _named(codings), bool(codings)
    if _odd(codings, named):
        faults["coding"] = None
    if len(set(lengths)) > 1 or (lengths and coded and faults):
        return None
    if len(lengths) > 1:
        faults["length-twice"] = None
    if lengths and (number := _NUMBER.fullmatch(lengths[0])) is not None:
        faults["length"] = None
        if coded:
            return None
        lengths = [number[1]]
    if not faults:
        return None
    kept += [b"content-length: " + said for said in lengths[:1]]
    kept += [b"transfer-encoding: " + (b",".join(named) or b"identity")] if coded else []
    one = b"1" if major == b"1" and minor not in (None, b"0") else b"0"
    return b"\r\n".join([b"HTTP/1." + one + b" " + code + b" ", *kept, b"", b""]), list(faults)


def odd_coding(header: bytes) -> bool:
    """Whether llhttp would not see that a body comes in chunks where browsers do: empty codings and `identity` beside
    or behind `chunked`, TAB or CR behind it, several fields."""
    values = _CODINGS.findall(FOLD.sub(b" ", header))
    return _odd(values, _named(values))


def _named(values: list[bytes]) -> list[bytes]:
    """The codings in the values of all Transfer-Encoding fields, without those that do nothing."""
    found = [coding.strip(b" \t\r").lower() for value in values for coding in value.split(b",")]
    return [coding for coding in found if coding not in (b"", b"identity")]


def _odd(values: list[bytes], named: list[bytes]) -> bool:
    if not named or named[-1] != b"chunked":
        return False
    said = values[0].removesuffix(b"\r").strip(b" ").lower()
    return len(values) > 1 or [coding.strip(b" ") for coding in said.split(b",")] != named


def _in_doubt(header: bytes) -> bool:
    """Whether some reader might see a field that frames the body where another one sees none."""
    for end, name in _NAMES.findall(header):
        known = _NOT_TOKEN.sub(b"", name).lower()
        if known in _FRAMING and (end == b"\r" or name.rstrip(b" \t").lower() != known):
            return True
    return False
