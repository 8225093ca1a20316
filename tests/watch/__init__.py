"""Tests of modules that are not in a file of their own name:

look.py      watch/test_server.py
guard.py     watch/test_server.py
steering.py  watch/test_server.py
terminal.py  watch/test_view.py
"""
