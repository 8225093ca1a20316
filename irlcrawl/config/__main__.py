"""`python -m irlcrawl.config`: prints every key with its help and default, as a file that can be used."""

from irlcrawl.config.toml import reference
from irlcrawl.terminal.progress import reader_may_leave

with reader_may_leave():
    print(reference(), end="")
