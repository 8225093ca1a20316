"""Whether a Ray cluster answers somebody without its token: `python -m irlcrawl.cluster.stranger HOST:PORT`.

In a process of its own, because Ray reads its token once a process. The exit code says what came: OPEN, SHUT, or
UNKNOWN if nothing did.
"""

from __future__ import annotations

import sys

OPEN, SHUT, UNKNOWN = 10, 11, 12


def main(address: str) -> int:
    try:
        from ray._raylet import GcsClient
        from ray.exceptions import AuthenticationError
    except ImportError:
        return UNKNOWN
    try:
        GcsClient(address=address)
    except AuthenticationError:
        return SHUT
    except Exception:  # whatever Ray raises where nothing answers
        return UNKNOWN
    return OPEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
