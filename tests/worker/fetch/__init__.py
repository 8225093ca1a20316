"""Tests of irlcrawl/worker/fetch: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

alpn.py            worker/fetch/test_http2.py
aiohttp_client.py   worker/fetch/test_http.py
client.py           worker/fetch/test_http.py
clients.py          worker/fetch/test_http.py
connection.py       worker/fetch/test_http.py, worker/fetch/test_http_failures.py
lease.py            worker/fetch/test_service.py, base/test_rows.py
process.py          worker/fetch/test_worker.py
"""
