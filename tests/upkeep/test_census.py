"""The census of URLs: its findings name files as those of all others do."""

from __future__ import annotations

from drum import Catalog, Edits

from tests.upkeep.conftest import Copy
from tests.upkeep.test_fsck import damage


def test_keys_that_are_not_those_of_their_urls_are_found_in_the_crawls_state(copy: Copy) -> None:
    """The finding's file was `state`, of no crawl in particular."""
    job = copy("stopped")
    catalog, edits = Catalog.open(job.state), Edits()
    crawl = catalog.get("crawl")
    edits.set("crawl", {**crawl, "seed": crawl["seed"] ^ 1})
    catalog.commit(edits)
    catalog.close()
    wrong = [found for found in damage(job) if "keys that are not theirs" in found.what]
    assert wrong and {found.file for found in wrong} == {str(job.state)}
