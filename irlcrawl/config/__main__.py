"""`python -m irlcrawl.config`: every key with its default and what it does, as a file that can be used."""

from irlcrawl.config.toml import reference
from irlcrawl.terminal.progress import reader_may_leave

with reader_may_leave():
    print(reference(), end="")
