"""Tests of irlcrawl/cli: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

arguments.py      cli/test_main.py, cli/test_completion.py, cli/test_words.py
alone.py          base/test_job.py, upkeep/test_fsck.py
filters.py        cli/test_verbs_ask.py, cli/test_verbs_retry.py
hand_in.py        cli/test_verbs_retry.py, cli/test_verbs_steer.py
steer.py          cli/test_verbs_steer.py
verbs_crawl.py    cli/test_main.py
verbs_export.py   export/test_cdxj.py
verbs_watch.py    watch/test_server.py, watch/test_view.py
verbs_upkeep.py   upkeep/test_fsck.py, upkeep/test_snapshot.py
"""
