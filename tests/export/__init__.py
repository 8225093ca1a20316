"""Tests of irlcrawl/export: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

archives.py     export/test_cdxj.py
output.py       export/test_cdxj.py
processes.py    export/test_cdxj.py
sorted_lines.py    export/test_cdxj.py
"""
