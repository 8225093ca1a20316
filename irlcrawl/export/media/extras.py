"""Libraries that only some exports need: loaded when they are needed, and named when they are missing."""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import ModuleType
from typing import Any

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


@lru_cache(maxsize=8)
def compiled(expression: bytes) -> Any:
    """An expression of PCRE2, as machine code. JobError as for `needed`."""
    pcre2 = needed("pcre2", "reading HTML")
    try:
        return pcre2.compile(expression, jit=True)
    except pcre2.LibraryError:  # some systems let no program make code
        return pcre2.compile(expression, jit=False)
