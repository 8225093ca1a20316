"""Libraries that only some exports need: loaded when they are needed, and named when they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from irlcrawl.base.job import JobError

EXTRAS = {"pyarrow": "export", "selectolax": "export", "pcre2": "export", "resiliparse": "text", "pypdfium2": "pdf"}
"""Library -> the extra of irlcrawl that installs it."""


def needed(module: str, purpose: str) -> ModuleType:
    """The module. JobError if it is not installed, which says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise JobError(
            f"{purpose} needs {library}, which is not installed: pip install 'irlcrawl[{EXTRAS[library]}]' ({error})"
        ) from None
