"""Run by the Python that has pywb: `PYTHON pywb_replay.py DIRECTORY` takes WARC files (`warc PATH`) and wanted captures
(`TIMESTAMP URL`), a line each, from standard input, and prints on standard error a line of JSON a capture: what a
reader of such an archive is given. DIRECTORY is empty, and pywb's to use."""

from gevent.monkey import patch_all

patch_all()

import base64  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from urllib.parse import urlsplit  # noqa: E402
from wsgiref.util import setup_testing_defaults  # noqa: E402


def main() -> None:
    lines = sys.stdin.read().split("\n")
    os.chdir(sys.argv[1])
    logging.disable(logging.CRITICAL)
    from pywb.manager.manager import main as wb_manager

    wb_manager(["init", "t"])
    wb_manager(["add", "t", *(line[5:] for line in lines if line.startswith("warc "))])
    from pywb.apps.frontendapp import FrontEndApp

    app = FrontEndApp(config_file="none.yaml")
    for line in lines:
        if line[:1].isdigit():
            timestamp, url = line.split(" ")
            print(json.dumps(ask(app, f"/t/{timestamp}id_/{url}")), file=sys.stderr)


def ask(app, target):
    """Status, body and time of what pywb shows, where it leads to another time of the same URL."""
    told = {}

    def start_response(status, headers, _=None):
        told["status"], told["headers"] = int(status.split(" ")[0]), dict(headers)

    path, _, query = target.partition("?")
    environ = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_URI": target}
    setup_testing_defaults(environ)
    body = b"".join(app(environ, start_response))
    at, location = told["headers"].get("Memento-Datetime", ""), told["headers"].get("Location", "")
    if not at and "/t/" in location:
        return ask(app, urlsplit(location).path)
    return {"status": told["status"], "body": base64.b64encode(body).decode(), "at": at, "location": location}


main()
