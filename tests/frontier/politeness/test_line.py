"""The line of those that are due against a model: the best first, every other place by age, a bound on waiting."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.politeness.line import CLASSES, FEW, DueLine, ReadyLine

worths = st.lists(st.integers(0, CLASSES - 1), max_size=2 * FEW)
STEPS = st.lists(st.tuples(worths, st.integers(0, 60), st.booleans(), st.integers(0, 9)), max_size=12)


class Model:
    """By the words of ready.py, with lists."""

    def __init__(self, most: int) -> None:
        self.most, self.plan, self.waiting = most, list[int](), list[tuple[int, int]]()  # (worth, number) by age

    def pop(self) -> int:
        if not self.plan:
            best = sorted(range(len(self.waiting)), key=lambda at: self.waiting[at][0])
            place = {at: min(2 * best.index(at), 2 * at + 1) for at in range(len(self.waiting))}
            chosen = sorted(place, key=place.__getitem__)[: self.most]
            self.plan = [self.waiting[at][1] for at in chosen]
            self.waiting = [one for at, one in enumerate(self.waiting) if at not in set(chosen)]
        return self.plan.pop(0) if self.plan else NONE


@settings(deadline=None)
@given(STEPS, st.sampled_from([2, 8, 64, 256]))
def test_the_line_is_the_models_and_nobody_waits_longer_than_promised(
    steps: list[tuple[list[int], int, bool, int]], most: int
) -> None:
    line, model, number = ReadyLine(most), Model(most), 0
    ahead: dict[int, int] = {}  # how many may still go before each
    for come, goes, together, gone in steps:
        for worth in come:
            ahead[number] = 2 * len(ahead) + most
            model.waiting.append((worth, number))
            if not together:
                line.push(number, worth)
            number += 1
        if together:
            line.push_many(range(number - len(come), number), come)
        assert sorted(line) == sorted(ahead)
        expected = [one for _ in range(goes) if (one := model.pop()) != NONE]
        got: list[int] = []
        while len(got) < goes:
            some = line.next(goes - len(got)).tolist() if together else [one for one in [line.pop()] if one != NONE]
            if not some:
                break
            if together:
                assert line.first() == some[0]
                line.skip(len(some))
            got += some
        assert got == expected
        for one in got:
            assert ahead.pop(one) >= 0, "it waited longer than the line promises"
            for other in ahead:
                ahead[other] -= 1
        line.prune(lambda one, gone=gone: one % 10 == gone)
        model.plan = [one for one in model.plan if one % 10 != gone]
        model.waiting = [one for one in model.waiting if one[1] % 10 != gone]
        ahead = {one: left for one, left in ahead.items() if one % 10 != gone}


def test_the_better_of_two_that_are_due_goes_first_though_the_other_is_older() -> None:
    line = ReadyLine()
    line.push_many(range(1000), [2] * 1000)
    line.push_many(range(1000, 1010), [0] * 10)
    line.push(2000, 3)
    first = [line.pop() for _ in range(20)]
    assert first[::2] == [*range(1000, 1010)], "ten of the best, though a thousand came before"
    assert first[1::2] == [*range(10)], "between them those that waited longest"
    line.push_many(range(3000, 5000), [0] * 2000)
    rest = [line.pop() for _ in range(2 * 1000 + 256)]
    assert 2000 in rest, "ever better ones do not starve the worst"
    assert np.count_nonzero(np.array(rest) >= 3000) > 900


SECONDS = st.sampled_from([0.0, 0.05, 0.125, 0.13, 1.0, 2.7, 40.0, 1e20])
STEPS = st.lists(st.tuples(st.sampled_from(["push", "pop", "look", "wait", "prune", "all"]), SECONDS), max_size=120)


@given(STEPS)
@settings(deadline=None)
def test_a_line_gives_what_is_due_in_order(steps: list[tuple[str, float]]) -> None:
    """Sorted by when it came due: its time, or when it was put there if that is later; never early, never forgotten."""
    dues: array[float] = array("d")
    line, now = DueLine(dues), 1000.0
    waiting: dict[int, tuple[float, int]] = {}  # number -> its place in the order
    for what, seconds in steps:
        if what == "push":
            dues.append(now + seconds - 0.1)
            number = len(dues) - 1
            waiting[number] = (max(dues[number], now), number)
            line.push(number, now)
        elif what == "all":  # some come, and those that are due go, together
            ready = line.ready(now, 3).tolist()
            for number in ready:
                assert dues[number] <= now and number in waiting
            line.skip(len(ready))
            for number in ready:
                assert waiting.pop(number)[0] <= min((waiting[other][0] for other in waiting), default=now)
            dues.extend([now + seconds - 0.1, now - 0.1, now + 2 * seconds])
            numbers = np.arange(len(dues) - 3, len(dues))
            waiting.update({number: (max(dues[number], now), number) for number in numbers.tolist()})
            line.push_many(numbers, now)
        elif what == "wait":
            now += min(seconds, 50.0)
        elif what == "pop":
            number = line.pop(now)
            due = {number for number in waiting if dues[number] <= now}
            assert (number in due) if due else number == NONE
            if number != NONE:
                assert waiting.pop(number)[0] <= min((waiting[other][0] for other in due - {number}), default=now)
        elif what == "prune":
            odd = [number for number in waiting if number % 2]
            assert sorted(line.prune(lambda number: number % 2 == 1)) == sorted(odd)
            for number in odd:
                del waiting[number]
        else:
            first = line.first(now)
            assert (first is None) == (not waiting)
            if first is not None:
                assert first[0] == max(now, min(dues[number] for number in waiting)) and first[1] in waiting
            assert sorted(line.due(now + seconds)) == sorted(n for n in waiting if dues[n] <= now + seconds)


def test_a_line_files_a_number_anew_whose_time_moved() -> None:
    dues = array("d", [1010.0, 1011.0])
    line = DueLine(dues)
    line.push(0, 1000.0)
    line.push(1, 1000.0)
    dues[0] = 1020.0
    assert line.first(1000.0) == (1011.0, 1)
    assert [line.pop(1015.0), line.pop(1019.0), line.pop(1020.0)] == [1, NONE, 0]
