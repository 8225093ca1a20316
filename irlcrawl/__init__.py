"""irlcrawl: a polite crawler for the open web that one person runs on one machine for weeks."""

__version__ = "0.1.0"
