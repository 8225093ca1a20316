"""What a caller can do wrong, each with its own name. Damage is `drum.files.Damaged`; a failing disk is an OSError."""


class Locked(BlockingIOError):
    """Another process holds the directory."""


class Incompatible(ValueError):
    """The directory was made with other options."""


class UnknownVersion(Exception):
    """A file is whole, and in a format that this program does not know: another one wrote it."""

    def __init__(self, file: str, version: object, known: str) -> None:
        super().__init__(
            f"{file}: its format is version {version}, which this program does not know (this program reads {known}): "
            "open it with the program that wrote it"
        )


class Busy(RuntimeError):
    """Used from within a merge, by what it calls."""


class Closed(ValueError):
    """Used after it was closed."""
