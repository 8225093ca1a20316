"""The command irlcrawl, which is `python -m irlcrawl`, too: loads the rest, and may be interrupted while it does."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        import signal

        from irlcrawl.base.interrupt import interrupt_on

        interrupt_on(signal.SIGINT)
        from irlcrawl.cli import main

        return main.main()
    except (KeyboardInterrupt, RuntimeError) as error:  # nothing was begun: from then on cli/main.py takes it
        if isinstance(error.__cause__ or error, KeyboardInterrupt):  # within a dataclass it becomes a RuntimeError
            from irlcrawl.base.exit_codes import ExitCode  # not before: it may have been interrupted, too

            return ExitCode.INTERRUPTED
        raise


if __name__ == "__main__":
    sys.exit(main())
