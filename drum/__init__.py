"""Disk repository with update management: check, update and merge billions of keys in sequential passes."""

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
