"""The verb `export`: what a crawl has, for other tools. It reads the disk, whether the crawl runs or not."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, command
from irlcrawl.base.job_files import WARC_ZSTD
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar, bar_for, reader_may_leave

if TYPE_CHECKING:
    from drum.files import Damaged

    from irlcrawl.export import dataset
    from irlcrawl.export.archives import Archive
    from irlcrawl.export.originals import Indexes

OPTIONS: dict[str, set[str]] = {
    "cdxj": {"output", "jobs"},
    "pages": {"output", "jobs", "format", "text", "language", "pdf", "crawl", "originals"},
    "links": {"output", "jobs", "format", "pdf", "crawl", "originals"},
    "listed": {"output", "jobs", "format"},
    "hosts": {"output", "format"},
    "graph": {"output", "jobs", "format", "by", "originals"},
    "wacz": {"output", "jobs", "title"},
}  # fmt: skip
"""What each export takes beside JOB and --quiet."""
FORMATS = ("jsonl", "parquet", "cc", "webgraph")
"""The last two are of graphs."""


def export(args: argparse.Namespace) -> int:
    """Run one export. ConfigError for an option that it does not take; Damaged if archives were left out."""
    names = {name for taken in OPTIONS.values() for name in taken}
    for name in sorted(names - OPTIONS[args.export]):
        if getattr(args, name) not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')}: export {args.export} takes no such option")
    _check(args)
    job = JobDir(args.job).require()
    _load(args)
    bar = bar_for(quiet=args.quiet)
    damaged: list[Damaged] = []
    try:
        with reader_may_leave():
            EXPORTS[args.export](job, args, bar, damaged)
    except KeyboardInterrupt:
        bar.note(f"interrupted: {words.shown(_left(args))}")
        raise
    finally:
        bar.close()
    if damaged:
        raise _left_out(damaged, args.output is None and args.export != "cdxj")
    return ExitCode.DONE


def _left_out(damaged: list[Damaged], in_part: bool) -> Damaged:
    """One error for all archives that are damaged: the others were exported. in_part: and what stands before the
    damage."""
    from drum.files import Damaged

    first, files = damaged[0], {error.file for error in damaged}
    more = words.plural(len(files) - 1, "more damaged archive")
    others = f", as {'was' if len(files) == 2 else 'were'} {more}" if len(files) > 1 else ""
    came = "what is behind that" if in_part else "it"
    return Damaged(first.file, first.offset, f"{first.what}; {came} was left out of the export{others}")


def _load(args: argparse.Namespace) -> None:
    """The libraries that an export needs: one that is missing shows before hours of work. JobError."""
    from irlcrawl.export.media.extras import needed

    if args.export in ("pages", "links", "graph", "wacz"):
        needed("selectolax.lexbor", "reading HTML")
        needed("pcre2", "reading HTML")
    if args.format == "parquet":
        needed("pyarrow.parquet", "--format parquet")
    for option in ("text", "language"):
        if getattr(args, option):
            needed("resiliparse.extract.html2text", f"--{option}")


def _left(args: argparse.Namespace) -> str:
    """What an export that was interrupted leaves, and how it goes on."""
    if args.output is None:
        return "what was written to standard output is not all of it"
    if EXPORTS[args.export] in (_table, _graph):
        return f"the archives that were done are kept in {args.output}; the same command goes on with the others"
    indexes = ", with the indexes of archives that are kept in JOB" if args.export in ("cdxj", "wacz") else ""
    return f"{args.output} was not written; the same command begins anew{indexes}"


def _check(args: argparse.Namespace) -> None:
    """ConfigError for values that an option does not take."""
    if args.jobs is not None and args.jobs < 1:
        raise ConfigError(f"--jobs {args.jobs}: takes how many processes to use")
    if args.format not in (None, *(FORMATS if args.export == "graph" else FORMATS[:2])):
        raise ConfigError(f"--format {args.format}: {args.export} are written as {' or '.join(FORMATS[:2])}")
    if args.output is None and (args.export in ("graph", "wacz") or args.format == "parquet" or args.crawl is not None):
        raise ConfigError(f"export {args.export} writes files: say where, with -o")
    if args.crawl is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", args.crawl):
        raise ConfigError(f"--crawl {args.crawl}: a name of letters, digits, '.', '_' and '-'")


def _jobs(args: argparse.Namespace) -> int:
    from irlcrawl.export.processes import cores

    return int(args.jobs or cores())


def _note_left_out(job: JobDir, bar: Bar, still_open: int, exported: Collection[str] = ()) -> None:
    """What the export does not have. exported: archives that it has, wherever they are now."""
    from drum.files import Files

    from irlcrawl.frontier.state.harvested import away

    if gone := away(job, Files(), exported):
        what = words.plural(gone, "archive is", "archives are")
        bar.note(f"{what} not in {job.warcs} (moved away, or on another machine of the crawl), and left out")
    if not still_open:
        return
    if job.is_snapshot() or job.is_locked():
        what = words.plural(still_open, "archive is", "archives are")
        bar.note(f"{what} still written to and left out; export again when the crawl has closed them")
    else:
        what = words.plural(still_open, "archive was", "archives were")
        bar.note(
            f"{what} left open by a crawl that was killed, and left out; {command('resume', job.path)} closes them"
        )


def _cdxj(job: JobDir, args: argparse.Namespace, bar: Bar, damaged: list[Damaged]) -> None:
    from drum.files import Files

    from irlcrawl.export import cdxj, output
    from irlcrawl.export.archives import closed

    files = Files()
    archives, still_open = closed(job, files)
    _note_left_out(job, bar, still_open)
    with tempfile.TemporaryDirectory() as directory:
        paths = cdxj.index(job, archives, directory, files, bar, _jobs(args), damaged)
        with output.to(args.output) as stream:
            stream.writelines(cdxj.all_lines(list(paths.values()), directory))


def _table(job: JobDir, args: argparse.Namespace, bar: Bar, damaged: list[Damaged]) -> None:
    """Pages, links or what is listed: into a directory, bit by bit; or all of them to standard output."""
    from drum.files import Files

    from irlcrawl.export import dataset, formats, pages
    from irlcrawl.export.archives import closed

    asked = pages.Asked(bool(args.text), bool(args.language), bool(args.crawl), bool(args.pdf), bool(args.originals))
    plan = dataset.Plan(args.export, args.format or formats.JSON_LINES, asked, args.crawl or "")
    archives, still_open = closed(job, Files())
    exported: list[str] = []
    with _indexes(job, archives, args, bar, damaged) as indexes:
        if args.output is None:
            _stream(plan, archives, bar, damaged, indexes)
        else:
            with contextlib.closing(dataset.Dataset.open(args.output, plan)) as found:
                done, rows = found.add(found.new(archives), bar, _jobs(args), damaged, indexes, still_open)
                exported = found.exported
            bar.note(f"{words.plural(rows, 'row')} of {words.plural(done, 'archive')} added to {args.output}")
    _note_left_out(job, bar, still_open, exported)


@contextlib.contextmanager
def _indexes(
    job: JobDir, archives: list[Archive], args: argparse.Namespace, bar: Bar, damaged: list[Damaged]
) -> Iterator[Indexes | None]:  # fmt: skip
    """The indexes of all archives, made where they are missing, if originals are asked for."""
    if not args.originals:
        yield None
        return
    from drum.files import Files

    from irlcrawl.export import cdxj
    from irlcrawl.export.originals import Indexes

    with tempfile.TemporaryDirectory() as directory:
        yield Indexes.of(job, cdxj.index(job, archives, directory, Files(), bar, _jobs(args), damaged))


def _stream(
    plan: dataset.Plan, archives: list[Archive], bar: Bar, damaged: list[Damaged], indexes: Indexes | None
) -> None:  # fmt: skip
    """Of an archive that is damaged, the rows before the damage."""
    from drum.files import Damaged

    from irlcrawl.export import dataset, formats

    bar.stage(f"export {plan.what}", sum(one.bytes for one in archives))
    names = [column.name for column in plan.columns]
    for archive in archives:
        try:
            for _, row in dataset.rows(plan, archive, indexes):
                sys.stdout.buffer.write(formats.json_line(names, row))
        except Damaged as error:
            damaged.append(error)
        bar.read(archive.bytes)


def _hosts(job: JobDir, args: argparse.Namespace, bar: Bar, _: list[Damaged]) -> None:
    from irlcrawl.export import formats, hosts
    from irlcrawl.export.table import HOSTS

    names = [column.name for column in HOSTS]
    with tempfile.TemporaryDirectory() as directory:
        found = hosts.rows(job, directory, bar)
        if args.output is None:
            sys.stdout.buffer.writelines(formats.json_line(names, row) for row in found)
            return
        writer = formats.open_file(args.output, HOSTS, args.format or formats.JSON_LINES)
        try:
            for row in found:
                writer.write(row)
        except BaseException:
            writer.drop()
            raise
        writer.close()
        bar.note(f"{words.plural(writer.rows, 'host')} in {args.output}")


def _graph(job: JobDir, args: argparse.Namespace, bar: Bar, damaged: list[Damaged]) -> None:
    from drum.files import Files

    from irlcrawl.export import dataset, formats, graph, pages
    from irlcrawl.export.archives import closed

    archives, still_open = closed(job, Files())
    plan = dataset.Plan("graph", asked=pages.Asked(originals=bool(args.originals)), hosts=args.by == "host")
    with (
        _indexes(job, archives, args, bar, damaged) as indexes,
        contextlib.closing(dataset.Dataset.open(args.output, plan)) as found,
    ):
        found.add(found.new(archives), bar, _jobs(args), damaged, indexes, still_open)
        exported = found.exported
        edges = [dataset.edges_path(args.output, name) for name in exported]
        with found.temporary() as directory:
            vertices, total = graph.write(edges, args.output, directory, args.format or formats.JSON_LINES)
    what = words.plural(vertices, args.by or "site")
    bar.note(f"{what} and {words.plural(total, 'edge')} in {args.output}")
    if old := graph.of_other_formats(args.output, args.format or formats.JSON_LINES):
        bar.note(f"{' and '.join(old)} are of an earlier export, in another --format, and were not written again")
    _note_left_out(job, bar, still_open, exported)


def _wacz(job: JobDir, args: argparse.Namespace, bar: Bar, damaged: list[Damaged]) -> None:
    from drum.files import Files

    from irlcrawl.export import wacz
    from irlcrawl.export.archives import closed

    archives, still_open = closed(job, Files())
    _note_left_out(job, bar, still_open)
    if packed := sum(archive.name.endswith(WARC_ZSTD) for archive in archives):
        bar.note(f"{words.plural(packed, 'archive')} of zstd frames: ReplayWeb.page and pywb read gzip only")
    if missed := wacz.write(job, archives, args.output, bar, _jobs(args), time.time(), damaged, args.title):
        what = words.plural(missed, "response")
        bar.note(
            f"{what} cannot be shown: the body was taken down, or is in another crawl or an archive that is not here"
        )


EXPORTS: dict[str, Callable[[JobDir, argparse.Namespace, Bar, list[Damaged]], None]] = {
    "cdxj": _cdxj, "pages": _table, "links": _table, "listed": _table, "hosts": _hosts, "graph": _graph,
    "wacz": _wacz,
}  # fmt: skip
