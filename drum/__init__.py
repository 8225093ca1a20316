"""Disk repository with update management: check, update and merge billions of keys in sequential passes."""

from drum.catalog import Catalog, Edits
from drum.files import Damaged, Files
from drum.ragged import BYTES, Batch, Ragged, Schema
from drum.segment import Section, SectionWriter, Segment, SegmentPool, SegmentWriter

__all__ = [
    "BYTES", "Batch", "Catalog", "Damaged", "Edits", "Files", "Ragged", "Schema", "Section", "SectionWriter",
    "Segment", "SegmentPool", "SegmentWriter",
]  # fmt: skip
