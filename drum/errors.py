"""What a caller can do wrong, each with its own name. Damage is `drum.files.Damaged`; a failing disk is an OSError."""


class Locked(BlockingIOError):
    """Another process holds the directory."""


class Incompatible(ValueError):
    """The directory was made with other options."""


class Closed(ValueError):
    """Used after it was closed."""
