"""The HTTP server of the operator's page: static files, what they ask for, /metrics, and the verbs behind the token.

GET  /, /watch.js, /watch.css, /icon.svg    the page; there is nothing of the crawl in it
GET  /api/page                              what it shows (Look.page)
GET  /api/charts?seconds=N                  its charts (Look.charts)
GET  /metrics                               Prometheus, OpenMetrics
POST /api/do                                a verb: {"verb", "arguments", "text"} -> {"code", "said"}
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import signal
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from drum import Damaged

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import ConfigError
from irlcrawl.crawl.history import LEVELS
from irlcrawl.watch import metrics, steering
from irlcrawl.watch.guard import HEADERS, Guard, Refused, is_loopback
from irlcrawl.watch.look import Look

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGE = {"/": ("index.html", "text/html"), "/watch.js": ("watch.js", "text/javascript"),
        "/watch.css": ("watch.css", "text/css"), "/icon.svg": ("icon.svg", "image/svg+xml")}  # fmt: skip
SECONDS_MIN, SECONDS_MAX = 60.0, float(LEVELS[-1][0] * LEVELS[-1][1])
HOUR = 3600.0

_log = logging.getLogger("irlcrawl.watch")


class Server:
    """Of one crawl. Files are read and the crawl is asked on another thread, one at a time."""

    def __init__(self, job: JobDir, guard: Guard) -> None:
        self._job, self._guard, self._look = job, guard, Look(job)
        self._looking, self._doing = asyncio.Lock(), asyncio.Lock()
        self._files = {path: files("irlcrawl.watch").joinpath("page", name).read_bytes()
                       for path, (name, _) in PAGE.items()}  # fmt: skip

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=steering.SEEDS_BYTES_MAX)
        app.add_routes([web.get(path, self._file) for path in PAGE])
        app.add_routes([
            web.get("/api/page", self._page), web.get("/api/charts", self._charts),
            web.get("/metrics", self._metrics), web.post("/api/do", self._do),
        ])  # fmt: skip
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = self._guard.refusal(request.method, request.headers)
        if refused is None and request.path not in PAGE:
            if request.method == "POST" and not self._guard.knows(request.headers):
                refused = Refused(401, "steering takes the token that `irlcrawl watch` printed")
            elif not self._guard.may_look(request.headers):
                refused = Refused(401, "looking takes the token that `irlcrawl watch` printed")
        try:
            answer = await handler(request) if refused is None else _error(refused)
        except web.HTTPException as error:  # 404, 405, 413
            answer = _error(Refused(error.status, error.reason))
        except web.RequestPayloadError:
            answer = _error(Refused(400, "the body is not in the coding that its header names"))
        except (Damaged, OSError) as error:
            answer = _error(Refused(503, str(error)))
        answer.headers.update(HEADERS)
        return answer

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.path], content_type=PAGE[request.path][1], charset="utf-8")

    async def _page(self, request: web.Request) -> web.Response:
        may_steer = self._guard.knows(request.headers)
        return web.json_response({**await self._looked(self._look.page), "may_steer": may_steer})

    async def _charts(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", HOUR))
            if math.isnan(seconds):
                raise ValueError
            seconds = min(max(seconds, SECONDS_MIN), SECONDS_MAX)
        except ValueError:
            return _error(Refused(400, "seconds: takes a number"))
        return web.json_response(await self._looked(lambda: self._look.charts(seconds)))

    async def _metrics(self, request: web.Request) -> web.Response:
        openmetrics = "application/openmetrics-text" in request.headers.get("Accept", "")

        def text() -> str:
            self._look.log.read()
            return metrics.exposition(self._look.record(), self._look.log.durations, openmetrics)

        kind = metrics.OPENMETRICS if openmetrics else metrics.TEXT
        return web.Response(body=(await self._looked(text)).encode(), headers={"Content-Type": kind})

    async def _do(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _error(Refused(415, "takes application/json"))
        try:
            what = steering.asked(self._job.path, json.loads(await request.read()))
        except (ConfigError, ValueError, RecursionError) as error:
            return _error(Refused(400, str(error)))
        async with self._doing:  # one after the other, as by a person
            code, said = await steering.run(what)
        _log.info("%s: exit code %d", " ".join(what.arguments), code)
        return web.json_response({"code": code, "said": said})

    async def _looked(self, call: Callable[[], Any]) -> Any:
        async with self._looking:
            return await asyncio.to_thread(call)


def _error(refused: Refused) -> web.Response:
    return web.json_response({"error": refused.text}, status=refused.status)


def _is_ours(line: logging.LogRecord) -> bool:
    """Whether a line is about a fault of this program. What somebody sends that is no HTTP is answered with 400, and is
    worth no line here."""
    return not (line.exc_info and isinstance(line.exc_info[1], HttpProcessingError))


async def serve(
    job: JobDir, address: str, port: int, guard: Guard, listening: Callable[[str], None],
) -> None:  # fmt: skip
    """Until SIGINT or SIGTERM. listening: told the web address when somebody may ask. OSError: it is in use."""
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    logging.getLogger("aiohttp.server").addFilter(_is_ours)
    runner = web.AppRunner(Server(job, guard).app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port)
        await site.start()
        host, bound = runner.addresses[0][:2]
        listening(f"http://{f'[{host}]' if ':' in host else host}:{bound}/")
        await over.wait()
    finally:
        await runner.cleanup()


def open_to_look(address: str, private: bool) -> bool:
    """Whether one may look without the token."""
    return is_loopback(address) and not private
