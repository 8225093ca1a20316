"""What a start checks before it changes anything: the state is all there, and it is this crawl's.

fsck and repair ask the same questions, one by one. Each check reads and touches nothing; what it finds is Damaged, or
UnknownVersion where a later program made the crawl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from drum import Catalog, Damaged, Files

from irlcrawl.base.job import JobDamaged, JobDir, command
from irlcrawl.base.job_files import CONFIG, SEEDS_STREAM, parse_turn, turn_name
from irlcrawl.config.checks import changes
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import parse_stored
from irlcrawl.frontier.state import formats
from irlcrawl.worker.archive.log_parts import log_files
from irlcrawl.worker.archive.warc import warc_files

COPY_WROTE = (
    "of a stream that this crawl has not begun: a copy of it wrote here, or its catalogue is older. Move the archive "
    "out of this directory, or let `fsck --repair` take in what is in it"
)
STATE_GONE = "no catalogue, though there are outcomes: the state is gone"


def check_opened(job: JobDir, files: Files, catalog: Catalog, config: str | None, begun: bool) -> list[str]:
    """All that is checked of a catalogue that was opened (`check_state_there` comes before that). config: the text of
    irlcrawl.toml as it was found; begun: the crawl was here before. Returns what was changed in irlcrawl.toml by hand.
    UnknownVersion, Damaged, JobDamaged; OSError."""
    formats.check(catalog.root, catalog.get("crawl"))
    check_last_commit(catalog)
    changed = check_edited(job, catalog, config)
    for stranger in strangers(job, files, catalog):
        raise stranger
    if begun:
        from irlcrawl.frontier.state.harvested import check_archives  # a crawl that begins reads no archive

        check_archives(job, files, catalog)
    return changed


def has_outcomes(job: JobDir, files: Files) -> bool:
    """Whether archives or a crawl log show that a crawl was here."""
    if files.exists(job.warcs) and warc_files(files, str(job.warcs)):
        return True
    return files.exists(job.logs) and any(files.size(path) for path in log_files(files, str(job.crawl_log)))


def check_state_there(job: JobDir, files: Files) -> bool:
    """Whether there is a catalogue. Damaged when there is none, and something shows that there was one."""
    there = files.exists(job.state) and Catalog.exists(job.state, files)
    if not there and has_outcomes(job, files):
        raise Damaged(str(job.state), 0, STATE_GONE)
    return there


def check_last_commit(catalog: Catalog) -> None:
    """Damaged when there is a turn's file of a later commit than the last one the catalogue has: whole lines that are
    missing at its end leave no other trace, and opening it would delete what they named."""
    there = catalog.files.listdir(catalog.root)
    newest = max((commit for name in there if (commit := parse_turn(name)) is not None), default=0)
    if newest > catalog.number + 1:
        later = f"ends with commit {catalog.number}, and {turn_name(newest)} is of a later one"
        raise Damaged(catalog.log, catalog.bytes, later)


def strangers(job: JobDir, files: Files, catalog: Catalog) -> Iterator[Damaged]:
    """Archives of another crawl that a start would read on from, cut, or meet where a new worker writes: their units
    name places of that crawl, and would end URLs of this one that nobody asked for. A copy of this one is another, too:
    the numbers of its streams are committed before anything is written under them."""
    crawl, new = catalog.get("crawl") or {}, catalog.get("stream-next", SEEDS_STREAM + 1)
    for file in warc_files(files, str(job.warcs)):
        known = catalog.get(f"streams/{file.stream}")
        if file.stream < new and (known is None or (file.serial < known["warc"][0] and not file.open)):
            continue
        from irlcrawl.worker.archive.redo import made_by  # a crawl that begins reads no archive

        path = os.path.join(job.warcs, file.on_disk)
        maker = made_by(files, path)
        if crawl and maker not in (crawl["id"], None):
            yield Damaged(path, 0, "an archive of another crawl: move it out of this directory")
        elif crawl and maker is not None and file.stream >= new:
            yield Damaged(path, 0, COPY_WROTE)


def stored_config(job: JobDir, files: Files) -> str | None:
    """The text of irlcrawl.toml; None without one."""
    return files.read(job.config_file).decode("utf-8", "replace") if files.exists(job.config_file) else None


def check_edited(job: JobDir, catalog: Catalog, text: str | None) -> list[str]:
    """What is changed by hand in irlcrawl.toml since the last run. JobDamaged when that shaped what is on disk."""
    written = catalog.get("config")
    if written is None or text is None or text == written:
        return []
    try:
        old, new = (parse_stored(each, job.config_file) for each in (written, text))
    except ConfigError:  # what a start cannot read it does not get here with; what another program wrote is no measure
        return []
    if fixed := changes(old, new, fixed_only=True):
        raise JobDamaged(
            f"{job.config_file}: not as the last run left it: {'; '.join(fixed)}: cannot change, because it shaped "
            f"what is on disk; mend it, or let {command('fsck', job.path, '--repair')} write down that of the last run"
        )
    return changes(old, new)


def given(text: str | None, config: Config) -> list[str]:
    """What a start with `config` changes that irlcrawl.toml (its text as it was found) does not say."""
    try:
        return changes(parse_stored(text, CONFIG), config) if text is not None else []
    except ConfigError:
        return []
