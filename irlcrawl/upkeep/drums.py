"""Findings of fsck about a drum: whether its buckets and slices agree with the catalogue. Its bytes are checked
elsewhere."""

from __future__ import annotations

import os

from drum import Repository

from irlcrawl.upkeep.findings import Finding, Findings


def check_drum(drum: Repository, state: str) -> Findings:
    """Findings: buckets tile the key space, slices ascend, and together they hold as many keys as the catalogue
    says."""
    expected, rows = 0, 0
    for bucket in drum.buckets:
        if bucket.lo != expected:
            yield Finding(True, state, None, f"{drum.name}: no bucket holds the keys from {expected:016x} on")
        expected = bucket.hi + 1
        for part in bucket.slices:
            last = -1
            for batch in part.open(drum.pool).scan(["key"]):
                keys = batch["key"]
                if (keys[1:] <= keys[:-1]).any() or int(keys[0]) <= last:
                    yield Finding(True, os.path.join(state, part.file), None, f"{part.section}: keys do not rise")
                last = int(keys[-1])
        rows += sum(batch.rows for batch in drum.scan(bucket))
    if expected != 1 << 64:
        yield Finding(True, state, None, f"{drum.name}: no bucket holds the keys from {expected:016x} on")
    if rows != drum.rows:
        yield Finding(True, state, None, f"{drum.name} holds {rows} keys, and says {drum.rows}")
    waiting = sum(batch.rows for _, batch in drum.scan_pending())
    if waiting != drum.pending_rows:
        yield Finding(True, state, None, f"{drum.name}: {waiting} rows wait, and it says {drum.pending_rows}")
