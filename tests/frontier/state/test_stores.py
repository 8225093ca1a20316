"""What the stores of a crawl take from its configuration."""

from __future__ import annotations

from pathlib import Path

from irlcrawl.base.keys import name_key
from irlcrawl.config.keys import Config, Site
from irlcrawl.frontier.state.stores import budget_floors


def test_the_budget_that_the_operator_gives_a_site_goes_before_that_of_its_rank(tmp_path: Path) -> None:
    config = Config()
    (tmp_path / "ranks.csv").write_text("1,first.example\n2,second.example\n")
    config.budgets.ranks_file = str(tmp_path / "ranks.csv")
    config.site = {"second.example": Site(budget_min=7)}
    floors = {"first.example": config.budgets.top_budget, "second.example": 7}
    assert budget_floors(config) == {name_key(site.encode()): floor for site, floor in floors.items()}
