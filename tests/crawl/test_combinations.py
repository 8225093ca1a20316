"""Many features at once: stories of crawls (story.py), each drawn from a seed, each with other options in every run.

    python -m tests.crawl.test_combinations 0:500 [--show] [--keep]     # these seeds; what each did; keep what failed

A story that fails says what it did; the same seed tells it again, as long as story and web draw as they do.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from tests.crawl.story import Story
from tests.crawl.story_steps import BETWEEN, INSIDE, ask, export

QUICK = (1, 3)


def play(directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch, runs: int = 5) -> Story:
    story = Story(directory, seed, monkeypatch)
    story.between, story.inside = BETWEEN, INSIDE
    try:
        chance = story.draw.choice([0.05, 0.2, 0.5])
        for _ in range(runs):
            story.run(chance)
            if story.begun():
                story.whole()
                story.check_log()
            for _ in range(story.draw.randrange(3)):
                story.step()
        story.finish()
        story.draw.choice([ask, export])(story)
    except BaseException:
        print(f"-- seed {seed}", *story.told, sep="\n", file=sys.stderr)
        raise
    finally:
        story.close()
    return story


def plug_ins(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """The package of examples as if it were installed."""
    import tomllib

    examples = Path(__file__).parents[2] / "examples" / "plugins"
    points = tomllib.loads((examples / "pyproject.toml").read_text())["project"]["entry-points"]["irlcrawl.plugins"]
    info = directory / "irlcrawl_example_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: irlcrawl-example-plugins\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[irlcrawl.plugins]\n{lines}")
    patch.syspath_prepend(str(examples))
    patch.syspath_prepend(str(directory))


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    plug_ins(tmp_path / "site", monkeypatch)


@pytest.mark.parametrize("seed", QUICK)
def test_a_story(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugged: None) -> None:
    play(tmp_path, seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_stories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugged: None) -> None:
    play(tmp_path, seed, monkeypatch)


def seeds_of(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="+")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    failures = 0
    with pytest.MonkeyPatch.context() as outer, tempfile.TemporaryDirectory() as packages:
        plug_ins(Path(packages), outer)
        for text in args.seeds:
            for seed in seeds_of(text):
                began = time.process_time()
                directory = Path(tempfile.mkdtemp(prefix=f"story-{seed}-"))
                with pytest.MonkeyPatch.context() as patch:
                    try:
                        told = play(directory, seed, patch).told
                        if args.show:
                            print(*told, sep="\n")
                        print(f"{seed}: well, {len(told)} steps, {time.process_time() - began:.1f} s", flush=True)
                    except Exception:
                        failures += 1
                        traceback.print_exc()
                        print(f"{seed}: FAILED, {directory}", flush=True)
                        if args.keep:
                            continue
                if not args.keep:
                    shutil.rmtree(directory, ignore_errors=True)
    sys.exit(bool(failures))
