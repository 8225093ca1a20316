"""Which pages are worth their bytes, as far as a response header can say: by media type and by Content-Length."""

from __future__ import annotations

import re
from collections.abc import Sequence

from irlcrawl.base.reasons import Reason
from irlcrawl.web.media_type import essence, extracted

_TYPE = re.compile(rb"\ncontent-type[ \t]*:([^\r\n]*)", re.IGNORECASE)
_FOLD = re.compile(rb"\r?\n[ \t]+")  # a line that goes on (RFC 9112 5.2)
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d+)", re.IGNORECASE)


class Wants:
    """`types`: patterns of media types as fetch.types has them; empty: all. `length_max`: bytes; 0: off."""

    def __init__(self, types: Sequence[str], length_max: int) -> None:
        rules = [(not text.startswith("!"), text.lstrip("!").lower()) for text in types]
        self._rules = [(wanted, re.compile(re.escape(pattern).replace(r"\*", ".*"))) for wanted, pattern in rules]
        self._rest = not any(wanted for wanted, _ in rules)
        self._length_max = length_max

    def refuses(self, header: bytes) -> Reason:
        """UNWANTED_TYPE, UNWANTED_LENGTH, or OK: the body behind this response header is wanted. A header that does not
        say is."""
        header = _FOLD.sub(b" ", header)
        if self._rules and not self._takes(
            essence(extracted([one.decode("latin-1") for one in _TYPE.findall(header)]))
        ):
            return Reason.UNWANTED_TYPE
        if self._length_max and (length := _LENGTH.search(header)) is not None:
            digits = length[1].lstrip(b"0")
            if len(digits) > 18 or int(digits or b"0") > self._length_max:
                return Reason.UNWANTED_LENGTH
        return Reason.OK

    def _takes(self, kind: str) -> bool:
        found = next((wanted for wanted, pattern in self._rules if pattern.fullmatch(kind)), self._rest)
        return found or not kind
