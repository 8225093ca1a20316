"""Tests of irlcrawl/export: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

archives.py        export/test_cdxj.py
formats.py         export/test_dataset.py
graph.py           export/test_dataset.py, export/test_truth.py
graph_edges.py     export/test_dataset.py, export/test_truth.py
hostname.py        export/test_dataset.py
hosts.py           export/test_truth.py
language.py        export/test_dataset.py
links.py           export/test_truth.py
pages.py           export/test_dataset.py, export/test_truth.py
table.py           export/test_documented_queries.py
output.py          export/test_cdxj.py
processes.py       export/test_cdxj.py
sorted_lines.py    export/test_cdxj.py
"""
