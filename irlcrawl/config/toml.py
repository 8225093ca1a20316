"""The configuration: where its values come from, and how it is written down.

Sources in order: defaults, `--config FILE` (TOML), `-s section.key=value`. The effective configuration is written into
JOB/irlcrawl.toml, from which a resumed crawl starts. `irlcrawl config` prints the reference.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from irlcrawl.base.job import JobDamaged
from irlcrawl.config.checks import changes, check_resume, check_start, checked, site_name, validate
from irlcrawl.config.keys import (
    REPEATED,
    ROBOTS_FRESH_S_MAX,
    RULES,
    SECTIONS,
    Archive,
    Budgets,
    Config,
    ConfigError,
    Crawl,
    Fetch,
    Frontier,
    Hooks,
    Key,
    Limits,
    Network,
    Page,
    Politeness,
    Priority,
    Robots,
    Scope,
    Site,
    keys,
    section_keys,
    value_of,
)

LISTED_MAX = 5
NEAR_MAX, SURE = 3, 0.8
CONFIG_HEADER = "# The configuration this crawl last ran with; a resumed one starts from it.\n\n"
_END = re.compile(r"^# The end: (\d+) keys", re.MULTILINE)

__all__ = [
    "ROBOTS_FRESH_S_MAX", "SECTIONS", "Archive", "Budgets", "Config", "ConfigError", "Crawl", "Fetch", "Frontier",
    "Hooks", "Key", "Limits", "Network", "Page", "Politeness", "Priority", "Robots", "Scope", "Site", "apply",
    "changes", "check_resume", "check_start", "from_dict", "keys", "load", "load_stored", "override", "parse_stored",
    "parse_value", "reference", "section_keys", "to_dict", "to_toml", "validate", "value_of",
]  # fmt: skip


def load(
    file: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    *,
    base: Config | None = None,
) -> Config:
    """The configuration of `base` (default: the defaults), then the TOML `file`, then `section.key=value` overrides.

    Raises ConfigError. The result is checked key by key (`validate`); `check_start` says whether it suffices to start a
    crawl.
    """
    config = from_dict(to_dict(base)) if base is not None else Config()
    wrong = []
    if file is not None:
        values = _read(file)
        try:
            apply(config, values, where=f"{os.fspath(file)}: ")
        except ConfigError as error:
            wrong.append(str(error))
    for text in overrides:
        try:
            apply(config, override(text), where=f"-s {text}: ")
        except ConfigError as error:
            wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))
    validate(config)
    return config


def load_stored(file: str | os.PathLike[str]) -> Config:
    """The configuration that a crawl wrote down in JOB: `to_toml`, perhaps edited by hand since. Raises JobDamaged,
    which says how to mend it, also for a file that is not all there."""
    try:
        text = _text(file)
        return parse_stored(text, file)
    except ConfigError as error:
        raise JobDamaged(
            f"{error}; mend the file by hand (`irlcrawl config` prints every key), or let `irlcrawl fsck JOB "
            "--repair` write down again what the last run had"
        ) from error


def parse_stored(text: str, file: str | os.PathLike[str]) -> Config:
    """The configuration in the text of such a file. ConfigError."""
    where = f"{os.fspath(file)}: "
    values = _parsed(text, file)
    config = Config()
    apply(config, values, where)
    try:
        validate(config)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error
    _check_whole(text, values, where)
    return config


def _check_whole(text: str, values: Mapping[str, Any], where: str) -> None:
    """ConfigError when some of what `to_toml` wrote is missing: what was cut short is mostly still a configuration, and
    keys that are gone would have their defaults. Keys that a later program has besides are not missed."""
    known = [key for key in keys() if key.single]
    lacking = [key.path for key in known if key.name not in values.get(key.section, {})]
    end = _END.search(text)
    if end is None:
        told = f"; it lacks {_listed(lacking)}" if lacking else ""
        raise ConfigError(f"{where}cut short: {_end_line(len(known))!r}, its last line, is missing{told}")
    if len(known) - len(lacking) < int(end[1]):
        raise ConfigError(f"{where}lacks {_listed(lacking)}")


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - LISTED_MAX} more" if len(paths) > LISTED_MAX else ""
    return ", ".join(paths[:LISTED_MAX]) + more


def from_dict(values: Mapping[str, Any]) -> Config:
    """The inverse of `to_dict`; missing keys take their defaults. Raises ConfigError."""
    config = Config()
    apply(config, values)
    validate(config)
    return config


def to_dict(config: Config) -> dict[str, Any]:
    """Plain dicts and lists (JSON-able); `site` overrides that are not set are left out."""
    values = dataclasses.asdict(config)
    for section in RULES:
        rules = values[section]
        values[section] = [{key: value for key, value in rule.items() if value is not None} for rule in rules]
    values["site"] = {
        name: {key: value for key, value in site.items() if value is not None} for name, site in values["site"].items()
    }
    return values


def apply(config: Config, values: Mapping[str, Any], where: str = "") -> None:
    """Set the keys named by nested `values`, each checked by itself. Raises ConfigError with a line for each that is
    wrong, prefixed with `where`."""
    wrong: list[str] = []
    for section, content in values.items():
        if section not in SECTIONS:
            wrong.append(f"{where}{section}: no such section{_near(section, SECTIONS)}")
        elif section in RULES:
            setattr(config, section, _rules(section, content, where, wrong))
        elif not isinstance(content, Mapping):
            wrong.append(f"{where}{section} is a section of keys, not a value")
        elif section == "site":
            _apply_sites(config, content, where, wrong)
        else:
            _apply_section(getattr(config, section), section, section, content, where, wrong)
    if wrong:
        raise ConfigError("\n".join(wrong))


def _apply_sites(config: Config, content: Mapping[str, Any], where: str, wrong: list[str]) -> None:
    for name, keys_of_site in content.items():
        path = f'site."{name}"'
        if not isinstance(keys_of_site, Mapping):
            wrong.append(f'{where}{path} is a section of keys: [site."example.com"]')
            continue
        try:
            host = site_name(name, where)
        except ConfigError as error:
            wrong.append(str(error))
            continue
        _apply_section(config.site.setdefault(host, Site()), "site", path, keys_of_site, where, wrong)


def _rules(section: str, tables: Any, where: str, wrong: list[str]) -> list[Any]:
    """The rules of a section such as [[priority]], which take the place of those there were."""
    others = [name for name in section_keys(section) if name != "match"]
    both = "both match and weight" if others == ["weight"] else f"match and one of {', '.join(others)}"
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        wrong.append(f"{where}{section}: a list of rules, each in a section [[{section}]] with {both}")
        return []
    rules = [RULES[section]() for _ in tables]
    for number, (rule, table) in enumerate(zip(rules, tables, strict=True), 1):
        before = len(wrong)
        _apply_section(rule, section, f"{section} {number}", table, where, wrong)
        if len(wrong) == before and (rule.match is None or all(getattr(rule, name) is None for name in others)):
            wrong.append(f"{where}{section} {number}: a rule has {both}")
    return rules


def _apply_section(
    target: Any, section: str, path: str, content: Mapping[str, Any], where: str, wrong: list[str]
) -> None:
    table = section_keys(section)
    for name, value in content.items():
        if name not in table:
            wrong.append(f"{where}{path}.{name}: no such key{_near(name, table, path + '.')}")
            continue
        try:
            setattr(target, name, checked(table[name], f"{where}{path}.{name}", value))
        except ConfigError as error:
            wrong.append(str(error))


def _near(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What may have been meant: what begins so, else the most similar one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=SURE)
    near = near or [each for each in names if name and each.startswith(name)][:NEAR_MAX]
    near = near or difflib.get_close_matches(name, names, n=1)
    told = " or ".join(prefix + each for each in near)
    return f"; did you mean {told}?" if near else "; `irlcrawl config` lists them"


def _read(file: str | os.PathLike[str]) -> dict[str, Any]:
    return _parsed(_text(file), file)


def _text(file: str | os.PathLike[str]) -> str:
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:  # some editors begin a file with a byte order mark
            return stream.read()
    except OSError as error:
        raise ConfigError(f"{os.fspath(file)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{os.fspath(file)}: not TOML: {error}") from error


def _loads(text: str) -> dict[str, Any]:
    """TOMLDecodeError for all that is no TOML: numbers of thousands of digits and brackets by the thousand, too."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise tomllib.TOMLDecodeError(str(error)) from error


def _parsed(text: str, file: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        return _loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{os.fspath(file)}: not TOML: {error}") from error


def override(text: str) -> dict[str, Any]:
    """`section.key=value` or `site."example.com".key=value` as nested dicts; text needs no quotes."""
    match = re.fullmatch(r"""((?:"[^"\n]*"|'[^'\n]*'|[^="'\n])+)=(.*)""", text, re.DOTALL)
    if match is None:
        raise ConfigError(f"-s {text}: write section.key=value")
    path, value = match[1].strip(), match[2].strip()
    try:
        parts = _path(_loads(f"{path} = 0"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"-s {text}: {path} is not a key: {error}") from error
    if not parts:  # a comment
        raise ConfigError(f"-s {text}: write section.key=value")
    table = section_keys(parts[0]) if parts[0] in SECTIONS else {}
    nested: Any = parse_value(table.get(parts[-1]), value)
    for part in reversed(parts):
        nested = {part: nested}
    return dict(nested)


def _path(nested: Any) -> list[str]:
    parts = []
    while isinstance(nested, dict) and nested:
        part, nested = next(iter(nested.items()))
        parts.append(part)
    return parts


def parse_value(key: Key | None, text: str) -> Any:
    """The value that an option's text stands for: TOML if the text is TOML of the key's type, else the text as
    written."""
    try:
        value = _loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        value = text
    if key is not None and key.type == "str" and not isinstance(value, str):
        return text
    if key is not None and key.type == "list" and not isinstance(value, list):
        return [value if isinstance(value, str) else text]
    return value


def to_toml(config: Config) -> str:
    """Every key with its value, and a last line that says so; `load` reads it back to an equal Config, and
    `load_stored` finds out when some of it is missing."""
    lines, count = [], 0
    for section in SECTIONS:
        if section not in REPEATED:
            lines += [f"[{section}]"]
            lines += [f"{key.name} = {toml_value(value_of(config, key))}" for key in section_keys(section).values()] + [
                ""
            ]
            count += len(section_keys(section))
    for section in RULES:
        for rule in getattr(config, section):
            values = ((key, getattr(rule, key)) for key in section_keys(section))
            lines += [
                f"[[{section}]]",
                *(f"{key} = {toml_value(value)}" for key, value in values if value is not None),
                "",
            ]
    for name, site in config.site.items():
        lines += [f"[site.{toml_value(name)}]"]
        values = ((key, getattr(site, key)) for key in section_keys("site"))
        lines += [f"{key} = {toml_value(value)}" for key, value in values if value is not None] + [""]
    return "\n".join([*lines, _end_line(count), ""])


def _end_line(count: int) -> str:
    return f"# The end: {count} keys, those of sections in [[ ]] and of [site] not counted."


def toml_value(value: Any) -> str:
    """A TOML value. JSON's strings, numbers, booleans and arrays are TOML's too, DEL apart, which no key takes."""
    return json.dumps(value, ensure_ascii=False)


def effective(
    stored: str | os.PathLike[str] | None, file: str | None, overrides: Sequence[str], every: bool
) -> list[str]:
    """A line `section.key = value  # source` for each key that is set, of all keys if `every`: by JOB/irlcrawl.toml
    (`stored`), by a file, by `-s`. ConfigError, JobDamaged."""
    sources: list[tuple[str, Config]] = [("default", Config())]
    if stored is not None:
        sources.append((os.fspath(stored), load_stored(stored)))
    if file is not None:
        sources.append((file, load(file, base=sources[-1][1])))
    if overrides:
        sources.append(("-s", load(None, overrides, base=sources[-1][1])))
    flat = [(name, _flat(config)) for name, config in sources]
    lines = []
    for path, value in flat[-1][1].items():
        source = "default"
        for (_, before), (name, after) in pairwise(flat):
            if after.get(path) != before.get(path):
                source = name
        if every or source != "default":
            lines.append(f"{path} = {value}  # {source}")
    return lines


_MAKING = ("scope", "urls", "page", "robots", "politeness", "fetch", "limits", "revisit", "archive")
_PRIVATE = ("headers", "block", "dedupe_from", "on_warc_closed")


def making(config: Config) -> str:
    """What decides which pages a crawl asks for and how it keeps them, for a reader of its archives: `section.key =
    value` of each key that is not at its default, apart by `; `. Files and commands of this machine, headers, what is
    blocked and rules for single sites are left out."""
    before = _flat(Config())
    told = (
        f"{path} = {value}"
        for path, value in _flat(config).items()
        if path.partition(".")[0] in _MAKING and before.get(path, value) != value
        and not path.endswith("_file") and path.partition(".")[2] not in _PRIVATE
    )  # fmt: skip
    return "; ".join(told)


def _flat(config: Config) -> dict[str, str]:
    """Path of a key -> its value as TOML."""
    found = {key.path: toml_value(value_of(config, key)) for key in keys() if key.single}
    for section in RULES:
        for number, rule in enumerate(getattr(config, section), 1):
            for key, value in vars(rule).items():
                if value is not None:
                    found[f"{section} {number}.{key}"] = toml_value(value)
    for name, site in config.site.items():
        for key, value in vars(site).items():
            if value is not None:
                found[f"site.{toml_value(name)}.{key}"] = toml_value(value)
    return found


def reference() -> str:
    """The reference of the configuration: a TOML file of the defaults in which every key is explained."""
    lines = [
        "# irlcrawl configuration: every key with its default. (fixed): may not change when a crawl is resumed.",
        "",
    ]
    heads = {"site": '[site."example.com"]', **{section: f"# [[{section}]]" for section in RULES}}
    for section in SECTIONS:
        lines += [heads.get(section, f"[{section}]")]
        if section in REPEATED:
            lines += [f"# {' '.join((REPEATED[section].__doc__ or '').split(':')[0].split())}."]
        for key in section_keys(section).values():
            lines += [f"# {key.doc} Takes {key.allows()}.{' (fixed)' if key.fixed else ''}"]
            lines += [f"# {key.name} =" if key.default is None else f"{key.name} = {toml_value(key.default)}"]
        lines += [""]
    return "\n".join(lines)
