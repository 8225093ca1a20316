"""`/.well-known/tdmrep.json`, in which a host says of paths whether mining them is reserved (W3C community group, TDM
Reservation Protocol, "TDM File on the Origin Server"): read, and written as lines beside the rules of robots.txt.

The lines go where the text of the host's robots.txt goes, into the robots log and its cache, and are good as long as
that is: `irlcrawl-tdm: 1 /path/*.jpg https://policy`. Of the rules that match a path the first one counts. A robots.txt
that has such lines of its own is taken at its word.
"""

from __future__ import annotations

import json
import re
from typing import Any

from irlcrawl.web.wishes import of_tdm

PATH = b"/.well-known/tdmrep.json"
BYTES_MAX = 64 << 10
"""Of a file that are read."""
RULES_MAX = 200
LINES_BYTES_MAX = 8 << 10
"""Of the lines together, for they stand in a header of the archive. The rules behind that many are left out; if one of
them reserves, the last line reserves all that no rule before it names."""
_RESERVES = "irlcrawl-tdm: 1 "
_THE_REST = f"{_RESERVES}/\n"
_NOT_PRINTABLE = re.compile(rb"[^!-~]|#")  # a `#` would begin a comment


def lines(body: bytes) -> str:
    """The rules of a file as lines of ASCII; empty where it says nothing that can be understood."""
    try:
        rules = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    made = [line for rule in rules if (line := _line(rule))] if isinstance(rules, list) else []
    found, size = list[str](), len(_THE_REST)
    for line in made:
        size += len(line)
        if size > LINES_BYTES_MAX or len(found) == RULES_MAX - 1:
            break
        found.append(line)
    left_out = made[len(found) :]
    return "".join(found) + _THE_REST * any(line.startswith(_RESERVES) for line in left_out)


def _line(rule: Any) -> str:
    """Empty for a rule that is none."""
    location = rule.get("location") if isinstance(rule, dict) else None
    if not isinstance(location, str) or not location.startswith(("/", "*")):
        return ""
    value, policy = rule.get("tdm-reservation"), rule.get("tdm-policy")
    if value not in (0, 1, "0", "1"):  # true and false are 1 and 0
        return ""
    pattern = _NOT_PRINTABLE.sub(lambda octet: b"%%%02X" % octet[0][0], location.encode("utf-8", "replace"))
    said = of_tdm("tdm-policy", policy) if isinstance(policy, str) else set()
    more = " " + said.pop().partition("=")[2].replace("#", "%23") if said else ""
    return f"irlcrawl-tdm: {int(value)} {pattern.decode()}{more}\n"


def rule_of(value: bytes) -> tuple[bytes, frozenset[str]] | None:
    """(pattern, wishes) of what stands behind `irlcrawl-tdm:`; None if it is no rule."""
    parts = value.split()
    if len(parts) not in (2, 3) or parts[0] not in (b"0", b"1") or parts[1][:1] not in (b"/", b"*"):
        return None
    said = of_tdm("tdm-reservation", parts[0].decode())
    if len(parts) == 3:
        said |= of_tdm("tdm-policy", parts[2].replace(b"%23", b"#").decode("latin-1"))
    return parts[1], frozenset(said)
