"""The command irlcrawl, which is `python -m irlcrawl`, too: loads the rest, and may be interrupted while it does."""

import sys

INTERRUPTED = 11
"""ExitCode.INTERRUPTED, which is not loaded yet."""


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from irlcrawl.cli import main

        return main.main()
    except (KeyboardInterrupt, RuntimeError) as error:  # nothing was begun: from then on cli/main.py takes it
        if isinstance(error.__cause__ or error, KeyboardInterrupt):  # within a dataclass it becomes a RuntimeError
            return INTERRUPTED
        raise


if __name__ == "__main__":
    sys.exit(main())
