"""The crawl log followed as it grows, is torn, and is rolled away."""

from __future__ import annotations

from pathlib import Path

from irlcrawl.watch.log_tail import LINES_KEPT, LogTail

LINE = "2001-09-09T01:46:40.000Z {status} 1 http://a.test/{number} - - text/html #001 20010909014640000+{took} - - outcome=fetched,reason=ok\n"  # noqa: E501


def lines(first: int, last: int, status: int = 200, took: int = 5) -> str:
    return "".join(LINE.format(status=status, number=number, took=took) for number in range(first, last))


def urls(tail: LogTail) -> list[str]:
    return [entry.url.decode().removeprefix("http://a.test/") for entry in tail.last]


def counted(tail: LogTail) -> int:
    return sum(sum(one.buckets) for one in tail.durations.values())


def test_the_end_of_a_long_log_is_shown_and_only_what_is_new_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text(lines(0, 5000))
    tail = LogTail(log)
    assert urls(tail) == [str(number) for number in range(5000 - LINES_KEPT, 5000)]
    assert counted(tail) == 0
    with log.open("a") as stream:
        stream.write(lines(5000, 5003) + lines(5003, 5004)[:20])
    tail.read()
    assert urls(tail)[-1] == "5002" and counted(tail) == 3, "half a line is none yet"
    with log.open("a") as stream:
        stream.write(lines(5003, 5004)[20:] + "not a line\n" + lines(5004, 5005, took=20_000))
    tail.read()
    assert urls(tail)[-2:] == ["5003", "5004"] and counted(tail) == 5
    assert tail.durations["200", ""].buckets[-1] == 1, "longer than all bounds"


def test_a_url_that_robots_kept_from_its_request_was_counted_as_a_request_of_no_time(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.touch()
    tail = LogTail(log)
    left_out = LINE.format(status=-9998, number=1, took=0).replace("fetched,reason=ok", "excluded,reason=robots")
    log.write_text(lines(0, 1) + left_out)
    tail.read()
    assert urls(tail) == ["0", "1"] and list(tail.durations) == [("200", "")]


def test_no_line_is_missed_where_the_log_is_rolled_away(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    tail = LogTail(log)
    tail.read()
    log.write_text(lines(0, 3))
    tail.read()
    with log.open("a") as stream:
        stream.write(lines(3, 5))
    log.rename(tmp_path / "crawl.log.1")
    log.write_text(lines(5, 7))
    tail.read()
    tail.read()
    assert urls(tail) == ["0", "1", "2", "3", "4", "5", "6"] and counted(tail) == 7
    log.write_text(lines(7, 8))  # cut, as by a repair
    tail.read()
    tail.read()
    assert urls(tail)[-1] == "7"
    tail.close()
