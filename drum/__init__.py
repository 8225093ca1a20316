"""Disk repository with update management: check, update and merge billions of keys in sequential passes.

library        the front for other programs: the crawler does without it
processor.py   numpy's fast sort, asked for before numpy is loaded

The engine:

errors.py       wrong use, by name
repository.py   pending rows, buckets, merges, catalogue entries
pending.py      rows that wait in front of a repository
store.py        rows that are kept: sorted slices
merge.py        one merge, bucket by bucket
kernels.py      what a merge computes
wide.py         keys of 128 bits
keyset.py       sets of nothing but keys
hamming.py      keys that differ in a few bits
bucket.py       rows gathered in RAM, the cache of recent keys
fifo.py         durable queues
vacuum.py       keeping few and full files
cost.py         bytes read and written per key: the paper's model and ours

Files (FORMAT.md):

segment.py   reading a segment
writer.py    writing one
codec.py     columns as bytes
labels.py    rows by label
pool.py      which segments are open
catalog.py   the log of commits
names.py     names of these files
files.py     every call to the file system
sectors.py   the same, where a sector that cannot be read is damage
spill.py     rows sorted in temporary files

Shapes:

ragged.py    columns of bytes, and batches of columns
"""

from typing import Any

from drum import processor

processor.prefer_fast_sort()  # before anything loads numpy

from drum.catalog import Catalog, Edits
from drum.errors import Busy, Closed, Incompatible, Locked, UnknownVersion
from drum.fifo import Fifo
from drum.files import Damaged, Files
from drum.kernels import Check, CheckUpdate, Kernel, Result, Update
from drum.library.drum import Drum, Statistics
from drum.library.hashing import keys_of
from drum.merge import MergeStats
from drum.pending import Bucket
from drum.pool import SegmentPool
from drum.ragged import BYTES, Batch, Ragged, Schema
from drum.repository import Repository
from drum.segment import Section, Segment
from drum.vacuum import Holder, Place, vacuum
from drum.writer import SectionWriter, SegmentWriter

__all__ = [
    "BYTES", "Batch", "Bucket", "Busy", "Catalog", "Check", "CheckUpdate", "Closed", "Damaged", "Drum", "Edits", "Fifo",
    "Files", "Holder", "Incompatible", "Kernel", "Locked", "MergeStats", "Place", "Ragged", "Repository", "Result",
    "Schema", "Section", "SectionWriter", "Segment", "SegmentPool", "SegmentWriter", "Statistics",
    "UnknownVersion", "Update", "keys_of", "vacuum",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`drum.__version__`, of the distribution that brought it; the crawler's brings it, too."""
    if name != "__version__":
        raise AttributeError(f"module 'drum' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("irlcrawl-drum")
    except PackageNotFoundError:
        return version("irlcrawl")
