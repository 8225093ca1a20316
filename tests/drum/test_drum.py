"""The front door: exact verdicts through cache, RAM, disk and merges; nothing lost by closing, dying or a full disk."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import drum as drum_package
from drum import Batch, CheckUpdate, Drum, Files, Ragged, Update, keys_of
from drum.bucket import KeyBuffer, RecentKeys

import numpy as np
import pytest
from drum_support import FullDisk, spread
from hypothesis import given, settings
from hypothesis import strategies as st


class Seen(Drum):
    def __init__(self, path: Path, handed: list[int], **options: object) -> None:
        super().__init__(path, emit=lambda batch: handed.extend(batch["id"].tolist()), **options)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(st.lists(st.integers(0, 60), max_size=50), max_size=15),
    ends=st.lists(st.sampled_from(["nothing", "spill", "merge", "close", "die"]), min_size=15, max_size=15),
    ram_bytes=st.sampled_from([256, 4096, 1 << 26]), merge_rows=st.sampled_from([1, 30, 10**6]),
)  # fmt: skip
def test_every_key_is_new_once(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[int]], ends: list[str], ram_bytes: int, merge_rows: int
) -> None:
    path = tmp_path_factory.mktemp("drum")
    handed: list[int] = []
    model: dict[int, int] = {}
    drum = Seen(path, handed, ram_bytes=ram_bytes, merge_rows=merge_rows)
    first = 0
    for keys, end in zip(calls, ends):
        drum.add(spread(keys), id=np.arange(first, first + len(keys)))
        for number, key in enumerate(keys, first):
            model.setdefault(key, number)
        first += len(keys)
        if end == "spill":
            drum.spill()
        elif end == "merge":
            drum.merge()
            assert drum.waiting_rows == 0
        elif end in ("close", "die"):
            if end == "die":
                drum.spill()  # what is durable must survive the rest being forgotten
                drum._directory.close()
            else:
                drum.close()
            drum = Seen(path, handed, ram_bytes=ram_bytes, merge_rows=merge_rows)
    with drum:
        pass
    assert sorted(handed) == sorted(model.values())
    assert drum.rows == len(model)


def test_urls_in_new_urls_out(tmp_path: Path) -> None:
    new: list[bytes] = []
    with Drum(tmp_path / "seen", emit=lambda batch: new.extend(batch["url"].tolist())) as drum:
        urls = [b"http://a/", b"http://b/", b"http://a/"]
        drum.add(keys_of(urls), url=Ragged.from_list(urls))
    assert sorted(new) == [b"http://a/", b"http://b/"]
    with Drum(tmp_path / "seen", emit=lambda batch: new.extend(batch["url"].tolist())) as drum:
        drum.add(keys_of([b"http://c/", b"http://b/"]), url=Ragged.from_list([b"http://c/", b"http://b/"]))
    assert new[2:] == [b"http://c/"]
    assert drum.rows == 3


def test_values_and_every_verdict(tmp_path: Path) -> None:
    rows: list[tuple[int, bool]] = []
    kernel = CheckUpdate(duplicates=True)
    with Drum(tmp_path, kernel=kernel, emit=lambda b: rows.extend(zip(b["id"].tolist(), b["new"].tolist()))) as drum:
        drum.add(spread([1, 2, 1]), id=np.arange(3))
    assert sorted(rows) == [(0, True), (1, True), (2, False)]
    with Drum(
        tmp_path / "counts", kernel=Update(["n"], {"n": np.add}), values={"n": "i8"}, emit=lambda batch: None
    ) as drum:
        drum.add(spread([1, 2, 1]), n=np.array([1, 1, 1]))
        drum.merge()
        found, values = drum.lookup(spread([1, 2, 3]))
    assert found.tolist() == [True, True, False]
    assert values["n"].tolist() == [2, 1, 0]


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    files = FullDisk(10**9)
    handed: list[int] = []
    drum = Seen(tmp_path, handed, files=files)
    drum.add(spread(list(range(1000))), id=np.arange(1000))
    for room in (0, 200, 3000, 6000):
        files.room = room
        for action in (drum.spill, drum.merge):
            with pytest.raises(OSError, match="No space"):
                action()
            assert drum.waiting_rows == 1000
            assert drum.rows == 0
    files.room = 10**9
    handed.clear()
    drum.add(spread([5, 2000]), id=np.array([1000, 1001]))
    drum.merge()
    assert sorted(handed) == [*range(1000), 1001]
    drum.close()
    assert not list(tmp_path.glob("*.tmp"))


def test_it_is_open_once(tmp_path: Path) -> None:
    with Seen(tmp_path, []), pytest.raises(BlockingIOError):
        Seen(tmp_path, [])
    Seen(tmp_path, []).close()


def test_an_error_in_the_consumer_commits_nothing(tmp_path: Path) -> None:
    def fail(batch: Batch) -> None:
        raise RuntimeError("consumer")

    drum = Drum(tmp_path, emit=fail)
    drum.add(spread([1, 2]))
    with pytest.raises(RuntimeError, match="consumer"):
        drum.merge()
    assert (drum.rows, drum.waiting_rows) == (0, 2)


class Recording(Files):
    """The order of what matters for a power cut."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.names: dict[int, str] = {}

    def create(self, path: Path | str) -> int:
        handle = super().create(path)
        self.names[handle] = "segment"
        return handle

    def write(self, handle: int, data: bytes) -> None:
        self.calls.append(f"write {self.names.get(handle, 'log')}")
        super().write(handle, data)

    def fsync(self, handle: int) -> None:
        self.calls.append(f"fsync {self.names.get(handle, 'log')}")
        super().fsync(handle)

    def rename(self, old: Path | str, new: Path | str) -> None:
        self.calls.append("rename")
        super().rename(old, new)

    def fsync_dir(self, path: Path | str) -> None:
        self.calls.append("fsync directory")
        super().fsync_dir(path)

    def unlink(self, path: Path | str, missing_ok: bool = False) -> None:
        self.calls.append("unlink")
        super().unlink(path, missing_ok)


def test_a_file_is_durable_before_it_is_named_and_named_before_another_goes(tmp_path: Path) -> None:
    files = Recording()
    drum = Drum(tmp_path, emit=lambda batch: None, files=files)
    drum.add(spread([1, 2, 3]))
    drum.spill()
    files.calls.clear()
    drum.merge()
    deduplicated = [call for call, before in zip(files.calls, [None, *files.calls]) if call != before]
    assert deduplicated == [
        "write segment", "fsync segment", "rename", "fsync directory", "write log", "fsync log", "unlink",
    ]  # fmt: skip
    drum.close()


def test_the_examples_in_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    readme = Path(inspect.getfile(drum_package)).with_name("README.md").read_text()
    example, account, parts = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(example, {})
    exec(example, {})
    assert capsys.readouterr().out.count("http://a.example/") == 1
    names: dict[str, Any] = {}
    exec(account, names)
    exec(account, names)
    assert capsys.readouterr().out == "[5]\n[10]\n"
    names |= vars(drum_package)  # the parts begin where a program has begun already
    balances: list[int] = []
    with Drum(
        "bank",
        kernel=names["Account"](),
        values={"balance": "i8"},
        emit=lambda b: balances.extend(b["balance"].tolist()),
    ) as bank:
        key = spread([7])
        for op, amount in ((0, 5), (0, 6), (1, 0)):
            bank.add(key, op=op, amount=np.array([amount]))
        bank.merge()
    assert balances == [11]
    (tmp_path / "root").mkdir()
    batch = Batch({"key": spread([1, 1, 2]), "due": np.zeros(3, np.uint8)})
    names |= {"root": str(tmp_path / "root"), "files": Files(), "batch": batch}
    before, after = parts.split("writer =")
    exec(before, names)
    names["queue"] = drum_package.Fifo("queue", names["catalog"], names["pool"], "due")
    exec("writer =" + after, names)
    assert names["queue"].rows == 2
    assert names["seen"].rows == 2


@settings(max_examples=200)
@given(st.lists(st.lists(st.one_of(st.integers(0, 40), st.integers(2**64 - 4, 2**64 - 1)), max_size=40), max_size=8))
def test_the_cache_drops_only_repeats(calls: list[list[int]]) -> None:
    recent = RecentKeys(128)
    passed: set[int] = set()
    for keys in calls:
        fresh = np.isin(np.arange(len(keys)), recent.unseen(np.array(keys, np.uint64))).tolist()
        assert all(key in passed for key, new in zip(keys, fresh) if not new)
        passed |= {key for key, new in zip(keys, fresh) if new}
        assert passed >= set(keys)
    assert recent.asked == sum(map(len, calls))


@settings(max_examples=200)
@given(
    calls=st.lists(st.lists(st.one_of(st.integers(0, 40), st.integers(2**64 - 4, 2**64 - 1)), max_size=40), max_size=8),
    slots=st.sampled_from([2, 16, 64]), places=st.sampled_from([1, 2, 7, 40, 400]), cached=st.booleans(),
)  # fmt: skip
def test_waiting_keys_are_ascending_runs_that_lose_only_repeats(
    calls: list[list[int]], slots: int, places: int, cached: bool
) -> None:
    buffer, recent = KeyBuffer(8 * places), RecentKeys(8 * slots) if cached else None
    passed: set[int] = set()

    def leave() -> None:
        for run in buffer.runs:
            assert run.tolist() == sorted(set(run.tolist())), "a run ascends without repeats"
            passed.update(run.tolist())
        buffer.clear()

    given_keys: set[int] = set()
    for keys in calls:
        given_keys |= set(keys)
        rest = np.array([key << 58 & 2**64 - 1 | key for key in keys], np.uint64)
        while len(rest):
            room = buffer.room
            buffer.add(rest[:room])
            rest = rest[room:]
            if not buffer.room:
                buffer.sweep(recent)
                if buffer.rows >= buffer.capacity:
                    leave()
        assert len(buffer.runs) <= 33
    buffer.sweep(recent)
    leave()
    assert passed == {key << 58 & 2**64 - 1 | key for key in given_keys}
