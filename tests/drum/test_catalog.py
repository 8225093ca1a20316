"""The catalogue is its last whole commit, whatever was cut off behind it; any other damage is an error (I5)."""

import errno
import os
from pathlib import Path

from drum import Catalog, Damaged, Edits, Files
from drum import catalog as module

import pytest
from drum_support import FullDisk
from hypothesis import given, settings
from hypothesis import strategies as st

keys = st.sampled_from(["a", "a/1", "a/2", "b", "c/1"])
values = st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3), st.none())
changes = st.lists(st.lists(st.tuples(keys, st.one_of(st.just(...), values)), max_size=5), max_size=8)


def committed(catalog: Catalog, **puts: object) -> int:
    edits = Edits()
    for key, value in puts.items():
        edits.set(key, value)
    return catalog.commit(edits)


def log_of(root: Path) -> Path:
    return next(root.glob("catalog-*.log"))


@settings(max_examples=60, deadline=None)
@given(commits=changes, reopen=st.booleans(), compact=st.booleans())
def test_it_is_a_map(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[str, object]]], reopen: bool, compact: bool
) -> None:
    root = tmp_path_factory.mktemp("catalog")
    catalog = Catalog.open(root)
    model: dict[str, object] = {}
    for number, commit in enumerate(commits):
        edits = Edits()
        for key, value in commit:
            if value is ...:
                edits.remove(key)
                model.pop(key, None)
            else:
                edits.set(key, value)
                model[key] = value
        assert catalog.commit(edits) == number + 1
        if compact:
            catalog.compact()
        if reopen:
            catalog.close()
            catalog = Catalog.open(root)
        assert catalog.items() == sorted(model.items())
        assert Catalog.open(root, readonly=True).items() == sorted(model.items())
        assert catalog.items("a/") == sorted(item for item in model.items() if item[0].startswith("a/"))
    assert len(list(root.glob("catalog-*"))) == 1


@pytest.mark.parametrize("name", ["../mine.seg", "/etc/mine.seg", "a/b.seg", "..", "", 7])
def test_a_catalogue_of_a_stranger_deleted_files_outside_its_directory(tmp_path: Path, name: object) -> None:
    """A line named one and the next line named it no more, so that it was deleted after the next commit."""
    (tmp_path / "mine.seg").write_text("mine")
    root = tmp_path / "catalogue"
    root.mkdir()
    catalog = Catalog.open(root)
    for put, drop in (({"a": {"files": [name]}}, []), ({}, ["a"])):
        number = catalog.number + 1
        with open(log_of(root), "ab") as log:
            log.write(module._line({"n": number, "put": put, "drop": drop}))
        catalog.number = number
    catalog.close()
    with pytest.raises(Damaged, match="no file of this directory"):
        committed(Catalog.open(root), b=1)
    assert (tmp_path / "mine.seg").exists()


def test_edits_remember_the_last_word() -> None:
    first, second = Edits(), Edits()
    first.set("a", 1)
    first.set("b", 1)
    second.remove("a")
    second.set("c", 2)
    first.merge(second)
    first.remove("c")
    first.set("c", 3)
    assert first.put == {"b": 1, "c": 3}
    assert first.drop == {"a"}


def test_a_torn_last_line_is_no_commit(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    committed(catalog, a=1)
    before = log_of(tmp_path).stat().st_size
    committed(catalog, a=2, b="x" * 50)
    catalog.close()
    data = log_of(tmp_path).read_bytes()
    for length in range(before, len(data)):
        log_of(tmp_path).write_bytes(data[:length])
        assert Catalog.open(tmp_path, readonly=True).items() == [("a", 1)]
        assert log_of(tmp_path).stat().st_size == length, "a reader changes nothing"
        again = Catalog.open(tmp_path)
        assert again.items() == [("a", 1)]
        assert log_of(tmp_path).stat().st_size == before
        assert committed(again, c=3) == 2
        again.close()
        assert Catalog.open(tmp_path, readonly=True).items() == [("a", 1), ("c", 3)]


@pytest.mark.parametrize("sector", [0, 1, 2, 3])
def test_sectors_of_the_last_line_that_never_reached_the_disk_are_a_torn_line(tmp_path: Path, sector: int) -> None:
    catalog = Catalog.open(tmp_path)
    committed(catalog, a=1)
    before = log_of(tmp_path).stat().st_size
    committed(catalog, b="x" * 1500)
    data = bytearray(log_of(tmp_path).read_bytes())
    lost = slice(max(before, sector * module.SECTOR), min((sector + 1) * module.SECTOR, len(data)))
    data[lost] = bytes(lost.stop - lost.start)
    log_of(tmp_path).write_bytes(data)
    assert Catalog.open(tmp_path).items() == [("a", 1)]


def test_a_zero_byte_in_the_last_line_is_damage(tmp_path: Path) -> None:
    """No sector of it is missing: it was whole once, and its commit must not be forgotten."""
    catalog = Catalog.open(tmp_path)
    committed(catalog, a=1)
    before = log_of(tmp_path).stat().st_size
    committed(catalog, b="x" * 50)
    data = bytearray(log_of(tmp_path).read_bytes())
    data[before + 30] = 0
    log_of(tmp_path).write_bytes(data)
    with pytest.raises(Damaged, match=f"offset {before}"):
        Catalog.open(tmp_path)


def test_every_flipped_byte_is_found_and_named(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    committed(catalog, a=1)
    committed(catalog, a=2, b=[1, {"x": "y"}])
    committed(catalog, c=None)
    catalog.close()
    data = log_of(tmp_path).read_bytes()
    for at in range(len(data)):
        for bit in (0x01, 0x41, 0x80):
            bad = bytearray(data)
            bad[at] ^= bit
            log_of(tmp_path).write_bytes(bad)
            with pytest.raises(Damaged) as caught:
                Catalog.open(tmp_path)
            assert caught.value.file == str(log_of(tmp_path))
            start = data.rfind(b"\n", 0, at) + 1
            assert caught.value.offset == start


def test_a_lost_line_is_found(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    for i in range(4):
        committed(catalog, a=i)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    log_of(tmp_path).write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(Damaged, match="commit 3 follows commit 1"):
        Catalog.open(tmp_path)


def test_a_long_log_is_rewritten_and_a_crash_around_the_switch_is_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACT_BYTES_MIN", 2000)
    catalog = Catalog.open(tmp_path)
    for i in range(200):
        committed(catalog, a=i, b="x" * 20)
    assert catalog.generation > 1
    assert log_of(tmp_path).stat().st_size < 4000
    state, log = catalog.items(), log_of(tmp_path)
    catalog.close()
    old = tmp_path / "catalog-000000.log"  # as if unlink had not come to it
    old.write_bytes(log.read_bytes())
    (tmp_path / f"catalog-{catalog.generation + 1:06d}.log.tmp").write_bytes(b"half")  # nor rename
    again = Catalog.open(tmp_path)
    assert again.items() == state
    assert not old.exists()
    again.compact()
    assert again.items() == Catalog.open(tmp_path, readonly=True).items() == state


def test_a_reader_outlives_a_switch_of_logs(tmp_path: Path) -> None:
    writer = Catalog.open(tmp_path)
    committed(writer, a=1)

    class Slow(Files):
        """The writer switches between a reader's look at the directory and its opening of the log."""

        switched = False

        def read(self, path: object) -> bytes:
            if not self.switched:
                self.switched = True
                writer.compact()
            return super().read(path)  # type: ignore[arg-type]

    assert Catalog.open(tmp_path, Slow(), readonly=True).items() == [("a", 1)]


def test_files_live_as_long_as_an_entry_names_them(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    for name in ("one.seg", "two.seg", "three.seg", "new.seg", "half.seg.tmp", "other.txt"):
        (tmp_path / name).write_bytes(b"")
    committed(catalog, a={"file": "one.seg", "rows": 3}, b={"files": ["one.seg", "two.seg"]}, c={"file": "three.seg"})
    assert catalog.live_files() == ["one.seg", "three.seg", "two.seg"]
    assert catalog.collect() == [], "only what lost its name goes, not what has none yet"
    edits = Edits()
    edits.remove("a")
    edits.set("c", {"file": "two.seg"})
    catalog.commit(edits)
    assert catalog.collect(keep=["three.seg"]) == []
    assert catalog.collect() == ["three.seg"]
    edits = Edits()
    edits.set("b", {"files": []})
    catalog.commit(edits)
    assert catalog.collect() == ["one.seg"]
    catalog.close()
    catalog = Catalog.open(tmp_path)
    assert catalog.sweep(keep=["new.seg"]) == ["half.seg.tmp"]
    assert catalog.sweep() == ["new.seg"]
    assert sorted(os.listdir(tmp_path)) == ["catalog-000000.log", "other.txt", "two.seg"]


def test_a_full_disk_commits_nothing_and_later_commits_go_on(tmp_path: Path) -> None:
    files = FullDisk(10_000)
    catalog = Catalog.open(tmp_path, files)
    committed(catalog, a=1)
    for room in (0, 1, 17, 30):
        files.room = room
        with pytest.raises(OSError, match="No space"):
            committed(catalog, a=2, b="x" * 50)
        assert catalog.items() == [("a", 1)]
        assert Catalog.open(tmp_path, readonly=True).items() == [("a", 1)]
    files.room = 10_000
    committed(catalog, a=3)
    assert Catalog.open(tmp_path, readonly=True).items() == [("a", 3)]


def test_a_reader_needs_a_catalogue_and_writes_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Catalog.open(tmp_path, readonly=True)
    assert os.listdir(tmp_path) == []
    Catalog.open(tmp_path).close()
    with pytest.raises(ValueError, match="reading only"):
        committed(Catalog.open(tmp_path, readonly=True), a=1)


class NoNames(Files):
    """A disk on which names cannot be made durable for `times` calls."""

    times = 0

    def fsync_dir(self, path: str | os.PathLike[str]) -> None:
        if self.times:
            self.times -= 1
            raise OSError(errno.EIO, "no names")
        super().fsync_dir(path)


@pytest.mark.parametrize("times", [1, 2])
def test_a_new_log_given_up_after_its_rename_hid_the_commits_that_followed(tmp_path: Path, times: int) -> None:
    files = NoNames()
    catalog = Catalog.open(tmp_path, files)
    committed(catalog, a=1)
    files.times = times
    catalog.compact()
    if times == 1:
        committed(catalog, a=2)
    else:  # nobody knows which log the disk has
        with pytest.raises(OSError, match="open the catalogue again"):
            committed(catalog, a=2)
    catalog.close()
    assert Catalog.open(tmp_path).get("a") == (2 if times == 1 else 1)


class Undeletable(Files):
    """A disk that deletes nothing while it is `stuck`."""

    stuck = True

    def unlink(self, path: str | os.PathLike[str], missing_ok: bool = False) -> None:
        if self.stuck:
            raise OSError(errno.EIO, "cannot delete")
        super().unlink(path, missing_ok)


def test_a_file_that_cannot_be_deleted_after_its_commit_is_tried_again(tmp_path: Path) -> None:
    """The commit stood, and the crawl ended with an OSError."""
    files = Undeletable()
    files.stuck = False
    catalog = Catalog.open(tmp_path, files)
    for name in ("one.seg", "two.seg"):
        (tmp_path / name).touch()
    committed(catalog, a={"file": "one.seg"})
    files.stuck = True
    committed(catalog, a={"file": "two.seg"})
    assert catalog.collect() == [] and (tmp_path / "one.seg").exists()
    files.stuck = False
    assert catalog.collect() == ["one.seg"] and not (tmp_path / "one.seg").exists()
    (tmp_path / "nobody.seg").touch()
    files.stuck = True
    assert catalog.sweep() == []
    files.stuck = False
    assert catalog.collect() == ["nobody.seg"]


def test_an_old_log_that_cannot_be_deleted_does_not_count(tmp_path: Path) -> None:
    files = Undeletable()
    files.stuck = False
    catalog = Catalog.open(tmp_path, files)
    committed(catalog, a=1)
    old = log_of(tmp_path)

    def unlink_new_only(path: str | os.PathLike[str], missing_ok: bool = False) -> None:
        if os.fspath(path) == os.fspath(old):
            raise OSError(errno.EIO, "cannot delete")
        Files.unlink(files, path, missing_ok)

    files.unlink = unlink_new_only  # type: ignore[method-assign]
    catalog.compact()
    committed(catalog, a=2)
    catalog.close()
    assert old.exists() and Catalog.open(tmp_path).get("a") == 2 and not old.exists()
