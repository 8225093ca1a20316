"""`python -m irlcrawl` is the command `irlcrawl`."""

from irlcrawl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
