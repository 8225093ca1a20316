"""RFC 9309 matching for the oracle: the rules of the `*` group, longest match wins, `*` and `$` understood."""

from __future__ import annotations

import re
from collections.abc import Sequence

Rule = tuple[bool, str]


def rules_for_all(text: str | None) -> list[Rule]:
    """(allow, pattern) of every rule in groups for `User-agent: *`; docsweb's files name no crawler of ours."""
    rules: list[Rule] = []
    agents: list[str] = []
    in_rules = False
    for raw in (text or "").splitlines():
        field, colon, value = (part.strip() for part in raw.partition("#")[0].partition(":"))
        if not colon:
            continue
        field = field.lower()
        if field == "user-agent":
            if in_rules:
                agents, in_rules = [], False
            agents.append(value)
        elif field in ("allow", "disallow"):
            in_rules = True
            if "*" in agents and value:
                rules.append((field == "allow", value))
    return rules


def allowed(rules: Sequence[Rule], target: str) -> bool:
    """Whether path and query `target` may be requested: the longest matching pattern decides, allow wins a tie."""
    best = (-1, True)
    for allow, pattern in rules:
        if _matches(pattern, target):
            best = max(best, (len(pattern), allow))
    return best[1]


def _matches(pattern: str, target: str) -> bool:
    anchored = pattern.endswith("$")
    body = ".*".join(map(re.escape, pattern.removesuffix("$").split("*")))
    return re.match(body + ("$" if anchored else ""), target) is not None
