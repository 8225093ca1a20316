"""Which URLs the operator would rather have: the rules `[[priority]]` of the configuration.

A rule is a pattern and a weight. The first rule whose pattern is found in a URL decides; its weight says by how many
levels the URL goes sooner or later within its site (base/keys.py: priority_of). All patterns together are one
automaton, so a URL costs a few microseconds however many rules there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from irlcrawl.base.pattern import octets, options
from irlcrawl.config.keys import ConfigError, Priority


def weigher(rules: Sequence[Priority]) -> Callable[[bytes], int] | None:
    """A function that gives the weight of a canonical URL, 0 where no rule matches; None if there are no rules.
    ConfigError if a pattern is no RE2 expression."""
    if not rules:
        return None
    found = searcher([rule.match or "" for rule in rules], "priority")
    weights = [rule.weight or 0 for rule in rules]

    def weight_of(url: bytes) -> int:
        at = found(url)
        return 0 if at is None else weights[at]

    return weight_of


def searcher(patterns: Sequence[str], section: str) -> Callable[[bytes], int | None]:
    """A function that gives the first of the patterns that is found in a URL, by its number from 0; None if none is.
    ConfigError, which names the rule, if one is no RE2 expression."""
    import re2  # only a configuration that has rules pays for loading the matcher

    together = re2.Set.SearchSet(options())
    for number, pattern in enumerate(patterns, 1):
        try:
            together.Add(octets(pattern))
        except (re2.error, ValueError) as error:
            raise ConfigError(f"{section} {number}: {pattern!r} is not an RE2 pattern: {error}") from error
    together.Compile()
    match = together.Match

    def first(url: bytes) -> int | None:
        hits = match(url)
        return min(hits) if hits else None

    return first
