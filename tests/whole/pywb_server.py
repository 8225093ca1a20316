"""Run by the Python that has pywb: `PYTHON pywb_server.py DIRECTORY WARC...` serves the archives as collection `t` on
loopback until standard input ends, and first prints its port. DIRECTORY is empty, and pywb's to use."""

from gevent.monkey import patch_all

patch_all()

import logging  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

from gevent.os import tp_read  # noqa: E402
from gevent.pywsgi import WSGIServer  # noqa: E402


def main() -> None:
    directory, *warcs = sys.argv[1:]
    os.chdir(directory)
    logging.disable(logging.CRITICAL)
    from pywb.manager.manager import main as wb_manager

    wb_manager(["init", "t"])
    wb_manager(["add", "t", *warcs])
    from pywb.apps.frontendapp import FrontEndApp

    server = WSGIServer(("127.0.0.1", 0), FrontEndApp(config_file="none.yaml"), log=None, error_log=None)
    server.start()
    print(server.server_port, flush=True)
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, 1)  # a pipe that is read no more would fill up
    os.dup2(nobody, 2)
    tp_read(0, 1)


main()
