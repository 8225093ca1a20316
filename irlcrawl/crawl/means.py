"""The files and addresses that a configuration points to, as far as rooms behind `config` read them: checked before JOB
is touched.

`config/checks.py` cannot import these rooms. Mistakes that are found here were found later before: by a start that had
written JOB/irlcrawl.toml already, or by a crawl that ran and ended in taking its new configuration over.
"""

from __future__ import annotations

import os

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.terminal.progress import Bar


def check_means(config: Config) -> None:
    """Whether machines can be listened for, and whether the CDXJ files begin as such. ConfigError."""
    if config.cluster.listen and not config.cluster.ray:  # on Ray, what is missing is made
        from irlcrawl.cluster import tcp  # few crawls have machines, or earlier archives

        place, _, _ = tcp.check(config.cluster)
        tcp.check_here(place)
    for path in config.archive.dedupe_from:
        if os.path.isfile(path):
            from irlcrawl.worker.archive import payloads

            try:
                next(payloads.told(path, config.archive.dedupe_bytes_min, Bar), None)
            except ValueError as error:
                raise ConfigError(str(error)) from error
