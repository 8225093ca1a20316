"""`python -m bench.seen.merging JSON ARGUMENT…`: irlcrawl with these arguments, and a merge in the same process.

The merge of a prepared store runs in a thread, when told: as the frontier's own merges do, with the same interpreter
lock.

JSON: {"store": directory of the drum, "ram_bytes", "trigger": a file whose appearance starts the merge, "result": where
its begin and end (unix seconds) and the number of new keys are written, as JSON, under a temporary name first}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import irlcrawl.cli
from drum import Batch, Drum

LOOK_SECONDS = 0.05


def merge_when_told(order: dict[str, Any], ended: threading.Event) -> None:
    trigger, result = Path(order["trigger"]), Path(order["result"])
    while not trigger.exists():
        if ended.wait(LOOK_SECONDS):
            return
    new = 0

    def emit(batch: Batch) -> None:
        nonlocal new
        new += batch.rows

    began = time.time()
    with Drum(order["store"], emit=emit, ram_bytes=order["ram_bytes"]) as drum:
        drum.merge()
    scratch = result.with_suffix(".tmp")
    scratch.write_text(json.dumps({"began": began, "ended": time.time(), "new_keys": new}))
    os.replace(scratch, result)


def main(argv: list[str]) -> int:
    ended = threading.Event()
    merger = threading.Thread(target=merge_when_told, args=(json.loads(argv[0]), ended))
    merger.start()
    try:
        return irlcrawl.cli.main(argv[1:])
    finally:
        ended.set()
        merger.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
