"""The graph of sites (or hosts), put together from the edges of each archive: vertices with names and degrees, edges by
number. Everything is sorted and merged on the disk; memory is bounded, but for sixteen bytes a vertex.

Formats, each a pair of files: JSON lines and Parquet (`vertices`, `edges`); Common Crawl's (`vertices.txt.gz`: number
TAB reversed name, and of a site TAB number of its hosts; `edges.txt.gz`: number TAB number); WebGraph's ASCIIGraph
(`graph.graph-txt`: the number of vertices, then a line of successors for each; `graph.names`: a name a line).
"""

from __future__ import annotations

import gzip
import os
from array import array
from collections.abc import Iterator
from typing import BinaryIO

from irlcrawl.base.job_files import COMPRESSED
from irlcrawl.export.formats import JSON_LINES, PARQUET, open_file
from irlcrawl.export.output import whole_file
from irlcrawl.export.sorted_lines import SortedLines, merged
from irlcrawl.export.table import EDGES, VERTICES

COMMON_CRAWL, WEBGRAPH = "cc", "webgraph"
FILES = {
    JSON_LINES: (f"vertices.{JSON_LINES}", f"edges.{JSON_LINES}"),
    PARQUET: (f"vertices.{PARQUET}", f"edges.{PARQUET}"),
    COMMON_CRAWL: (f"vertices.txt{COMPRESSED}", f"edges.txt{COMPRESSED}"),
    WEBGRAPH: ("graph.names", "graph.graph-txt"),
}
"""Of each format, the file of vertices and that of edges."""
_DIGITS = 12
_HOST = b"\t"
"""Begins what stands behind a site, if it is the name of one of its hosts (graph_edges.py)."""


def write(edges: list[str], directory: str, temporary: str, format_: str) -> tuple[int, int]:
    """Write the graph of sorted files of edges into `directory`; (vertices, edges). `temporary`: a directory for what
    lies between. JobError, OSError."""
    names = SortedLines(temporary)
    for line in merged(edges, temporary) if edges else ():
        start, _, end = line.rstrip(b"\n").partition(b"\t")
        names.add(start + b"\n")
        if end and not end.startswith(_HOST):
            names.add(end + b"\n")
    by_end = SortedLines(temporary)
    out_degrees, in_degrees, hosts = array("I"), array("I"), array("I")
    _number(merged(edges, temporary) if edges else iter(()), names, by_end, out_degrees, hosts)
    by_number = SortedLines(temporary)
    _number(iter(by_end), names, by_number, in_degrees, array("I"))
    vertices = ((number, name.rstrip(b"\n").decode(), in_degrees[number], out_degrees[number])
                for number, name in enumerate(names))  # fmt: skip
    numbered = (tuple(map(int, line.split(b"\t"))) for line in by_number)
    count = len(in_degrees)
    total = sum(in_degrees)
    if format_ == COMMON_CRAWL:
        _common_crawl(directory, vertices, numbered, hosts)
    elif format_ == WEBGRAPH:
        _webgraph(directory, vertices, numbered, count)
    else:
        for file, columns, found in zip(FILES[format_], (VERTICES, EDGES), (vertices, numbered)):
            writer = open_file(os.path.join(directory, file), columns, format_)
            try:
                for row in found:
                    writer.write(row)
            except BaseException:
                writer.drop()
                raise
            writer.close()
    return count, total


def of_other_formats(directory: str, format_: str) -> list[str]:
    """Files of graphs in a directory, in other formats than this one."""
    return [
        file for other, files in FILES.items() for file in files
        if other != format_ and os.path.exists(os.path.join(directory, file))
    ]  # fmt: skip


def _number(
    edges: Iterator[bytes], names: SortedLines, turned: SortedLines, degrees: array[int], hosts: array[int]
) -> None:
    """Edges sorted by their first name, that name replaced by its number and put behind: `from TAB to` becomes
    `to TAB number`. `degrees` gets the number of edges of each name, and `hosts` that of its hosts."""
    line = next(edges, None)
    for number, name in enumerate(names):
        vertex = name.rstrip(b"\n")
        degrees.append(0)
        hosts.append(0)
        while line is not None:
            start, _, end = line.rstrip(b"\n").partition(b"\t")
            if start != vertex:
                break
            if end.startswith(_HOST):
                hosts[number] += 1
            elif end:
                degrees[number] += 1
                turned.add(b"%s\t%0*d\n" % (end, _DIGITS, number))
            line = next(edges, None)


def _common_crawl(
    directory: str, vertices: Iterator[tuple[int, str, int, int]], edges: Iterator[tuple[int, ...]], hosts: array[int]
) -> None:
    """hosts: of each vertex how many it has; 0: it is one."""
    of_vertices, of_edges = (os.path.join(directory, file) for file in FILES[COMMON_CRAWL])
    with whole_file(of_vertices) as stream, _gzip(stream) as packed:
        for number, name, _, _ in vertices:
            packed.write((f"{number}\t{name}\t{hosts[number]}\n" if hosts[number] else f"{number}\t{name}\n").encode())
    with whole_file(of_edges) as stream, _gzip(stream) as packed:
        for start, end in edges:
            packed.write(b"%d\t%d\n" % (start, end))


def _gzip(stream: BinaryIO) -> gzip.GzipFile:
    """Without the name and the time of the file, whose name is another one while it is written."""
    return gzip.GzipFile("", "wb", 6, stream, 0)


def _webgraph(
    directory: str, vertices: Iterator[tuple[int, str, int, int]], edges: Iterator[tuple[int, ...]], count: int
) -> None:
    of_vertices, of_edges = (os.path.join(directory, file) for file in FILES[WEBGRAPH])
    with whole_file(of_vertices) as stream:
        stream.writelines(f"{name}\n".encode() for _, name, _, _ in vertices)
    with whole_file(of_edges) as stream:
        stream.write(b"%d\n" % count)
        edge = next(edges, None)
        for number in range(count):
            successors = []
            while edge is not None and edge[0] == number:
                successors.append(b"%d" % edge[1])
                edge = next(edges, None)
            stream.write(b" ".join(successors) + b"\n")
