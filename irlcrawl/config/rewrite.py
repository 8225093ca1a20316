"""JOB/irlcrawl.toml with other values: a person's comments and order stay where they are, as far as lines can be
changed one by one; else the file is written anew."""

from __future__ import annotations

import re

from irlcrawl.base.job_files import CONFIG
from irlcrawl.config.keys import RULES, Config, ConfigError, keys, value_of
from irlcrawl.config.toml import parse_stored, to_dict, to_toml, toml_value

_HEAD = re.compile(r"\s*\[([a-z]+)\]\s*(#.*)?")
_FIRST_TABLE = re.compile(r"^\[(\[|site\.)", re.MULTILINE)


def rewritten(text: str, config: Config, header: str) -> str:
    """The text of a file that says what `config` does: `text` as far as possible. header: of one written anew."""
    anew = header + to_toml(config)
    try:
        old = parse_stored(text, CONFIG)
    except ConfigError:
        return anew
    if to_dict(old) == to_dict(config):
        return text
    changed = {
        (key.section, key.name): toml_value(value)
        for key in keys()
        if key.single and (value := value_of(config, key)) != value_of(old, key)
    }
    edited = _with_tables(_with_values(text, changed), config, old)
    try:
        return edited if to_dict(parse_stored(edited, CONFIG)) == to_dict(config) else anew
    except ConfigError:
        return anew


def _with_values(text: str, changed: dict[tuple[str, str], str]) -> str:
    """Each line `name = value` of a changed key, with its new value and what stood behind the old one."""
    section, lines = "", []
    for line in text.split("\n"):
        if head := _HEAD.fullmatch(line):
            section = head[1]
        name, equals, rest = line.partition("=")
        value = changed.get((section, name.strip())) if equals else None
        if value is None:
            lines.append(line)
            continue
        comment = re.search(r"\s+#[^\"'\[\]]*$", rest)
        lines.append(f"{name.rstrip()} = {value}{comment[0] if comment else ''}")
    return "\n".join(lines)


def _with_tables(text: str, config: Config, old: Config) -> str:
    """With rules and [site."NAME"] written anew, where they differ: they are the last part of the file."""
    if all(getattr(config, name) == getattr(old, name) for name in (*RULES, "site")):
        return text
    whole = to_toml(config)
    begin, first = _FIRST_TABLE.search(text), _FIRST_TABLE.search(whole)
    end = text.rfind("# The end:")
    kept = text[: begin.start() if begin else end]
    return kept + whole[first.start() if first else whole.rfind("# The end:") :]
