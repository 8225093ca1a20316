"""How many vectors ran is told at the end of a run: a test that reads none would pass as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

Told = Callable[[str, int], None]


@pytest.fixture
def told(record_property: Callable[[str, object], None]) -> Told:
    """`told(name, count)`: so many vectors of that name were held against our code."""
    return lambda name, count: record_property(f"vectors of {name}", count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ran: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, count in report.user_properties:
            if name.startswith("vectors of ") and isinstance(count, int):
                ran[name] += count
    for name, count in sorted(ran.items()):
        terminalreporter.write_line(f"{name}: {count:,}")
