"""What is printed speaks the trade's language: none of the words that only the house knows."""

from __future__ import annotations

import re

from irlcrawl.cli.main import VERBS, _Parser, overview
from irlcrawl.config.keys import keys
from irlcrawl.crawl.pace import PACE
from irlcrawl.crawl.status import FIELDS
from irlcrawl.frontier.state.view import PLACES
from irlcrawl.watch import metrics, view

HOUSE = re.compile(r"\b(?:calendar|turns? (?:bring|has|is|takes)|QF|put off|re-?reads?)\b")
"""A calendar that is a trap may be called one: no text below speaks of traps."""


def texts() -> dict[str, str]:
    found = {"help": overview(), "places": " ".join(PLACES), "pace": " ".join(PACE.values())}
    found["metrics"] = " ".join(metric.help for metric in metrics.METRICS)
    notes = (view.PLACES, view.WAITS_FOR, view.FAILED_AS, view.SLOWED)
    found["page"] = " ".join(str(text) for table in notes for text in table.values())
    for name, verb in VERBS.items():
        parser = _Parser(f"irlcrawl {name}", usage=verb.usage, description=verb.help)
        verb.arguments(parser)
        found[name] = parser.format_help()
    return found | {key.path: key.doc for key in keys()} | {f"status {name}": text for name, text in FIELDS.items()}


def test_names_that_programs_read_have_no_word_of_the_house() -> None:
    names = [*FIELDS, *PACE, *(metric.name for metric in metrics.METRICS)]
    house = {"calendar", "turn", "turns", "rereads", "qf"}
    assert [name for name in names if house & set(name.split("_"))] == []


def test_texts_for_people_have_no_word_of_the_house() -> None:
    assert {name: found for name, text in texts().items() if (found := HOUSE.findall(text))} == {}
