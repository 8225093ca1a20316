"""`python -m tools.simweb serve DIR` serves a small simulated web on loopback until Ctrl-C; `measure` gives figures.

Both take `--set name=number` for any of the web's parameters (params.py), `serve --weather` for any of the weather's
(weather_params.py), too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from collections import Counter

import numpy as np

from tools.options import amount, directory, whole
from tools.sampleweb.server import ServerError, until_told
from tools.simweb.params import Params
from tools.simweb.serve import ADDRESSES_MAX, serving
from tools.simweb.truth import Truth
from tools.simweb.weather import Weather, WeatherParams
from tools.simweb.web import Web

SERVED_PAGES = 100_000
FOUR_WEEKS = 28 * 86_400.0
OF_WEATHER = {field.name for field in dataclasses.fields(WeatherParams)}
BATCH_PAGES = 2_000
"""A simulator asks for the links of about as many pages at a time; larger batches leave the processor's cache."""
CONFIG = """\
# A crawl of the simulated web on loopback.
[crawl]
user_agent = "irlcrawl-simweb/1.0 (+https://crawl.test/; crawl@crawl.test)"

[scope]
kind = "any"

[limits]
pages = 10_000

[network]
allow = ["127.52.0.0/16"]
resolvers = [{resolver}]
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.simweb", description="A web made of arithmetic.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="serve it on loopback until SIGINT")
    serve.add_argument("dir", type=directory, help="directory for the configuration, seeds and access log")
    addresses, seconds = whole(1, ADDRESSES_MAX), amount(zero=True)
    serve.add_argument("--addresses", type=addresses, default=16, help=f"loopback addresses, 1 to {ADDRESSES_MAX}")
    serve.add_argument("--seeds", type=whole(1), default=20)
    serve.add_argument("--speed", type=seconds, default=1.0, help="how many times faster hosts answer; 0: at once")
    serve.add_argument("--run-seconds", type=seconds, default=0, help="the run in which sites turn; 0: none does")
    serve.add_argument("--weather", action="store_true", help="the real web's weather: docs/weather.md")
    serve.add_argument(
        "--weather-speed", type=seconds, default=1.0, help="seconds of weather in a second; 0: it stands"
    )
    measure = verbs.add_parser("measure", help="print the web's figures as one JSON object")
    measure.add_argument("--pages", type=whole(1), default=20_000, help="sample")
    measure.add_argument("--weather", action="store_true", help="figures of the weather instead")
    for verb in (serve, measure):
        verb.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", dest="settings")
    options = parser.parse_args(argv)
    start = Params(pages_nominal=SERVED_PAGES) if options.verb == "serve" else Params()
    weather = None
    try:
        settings = options.settings
        if options.weather:
            its = [setting for setting in settings if setting.partition("=")[0].partition(".")[0] in OF_WEATHER]
            weather, settings = WeatherParams().overridden(its), [one for one in settings if one not in its]
        params = start.overridden(settings)
        if options.verb == "measure":
            web = Web(params)
            found = figures(web, options.pages) if weather is None else skies(Weather(web, weather, 0.0), options.pages)
            print(json.dumps(found))
            return 0
        return _serve(params, weather, options)
    except (ServerError, ValueError) as error:
        print(f"simweb: {error}", file=sys.stderr)
        return 1


def figures(web: Web, sample: int) -> dict[str, object]:
    """Sizes, what a sample of links leads to, and speed in this process."""
    random = np.random.default_rng(web.params.seed)
    sites = random.integers(0, web.good_sites, sample)
    pages = (sites.astype(np.uint64) << np.uint64(36)) | random.integers(0, web.size(sites)).astype(np.uint64)
    begin = time.process_time()
    parts = [web.links(pages[at : at + BATCH_PAGES]).targets for at in range(0, sample, BATCH_PAGES)]
    linked = time.process_time()
    targets = np.concatenate(parts)
    some = targets[:100_000]
    written_from = time.process_time()
    urls = web.urls(some)
    written = time.process_time()
    web.pages(urls)
    read = time.process_time()
    truth = np.bincount(web.truth(targets), minlength=len(Truth)) / len(targets)
    return {
        "seed": web.params.seed, "sites": web.sites, "good_sites": web.good_sites, "addresses": web.address_count,
        "good_pages": int(web.size(np.arange(web.good_sites)).sum()),
        "good_hosts": int(web.host_count(np.arange(web.good_sites)).sum()),
        "links_per_page": len(targets) / sample, "url_bytes": float(urls.lengths.mean()),
        "links_to": {t.name.lower(): round(float(truth[t]), 6) for t in Truth},
        "links_per_cpu_s": round(len(targets) / (linked - begin)),
        "urls_written_per_cpu_s": round(len(some) / (written - written_from)),
        "urls_read_per_cpu_s": round(len(some) / (read - written)),
    }  # fmt: skip


def skies(weather: Weather, sample: int) -> dict[str, object]:
    """What a crawl of four weeks would meet: of URLs two links away from some seeds, each asked at a random moment."""
    random = np.random.default_rng(weather.web.params.seed)
    near = np.unique(weather.links(weather.web.seeds(max(10, sample // 100)))[0].targets)
    urls = np.array(list(dict.fromkeys(weather.links(near[:sample])[1].tolist())), object)
    urls = random.permutation(urls)[:sample].tolist()
    weather.meet([url.split(b"/")[2] for url in urls])
    begin = time.process_time()
    met: Counter[str] = Counter()
    for url, at in zip(urls, random.uniform(0.0, FOUR_WEEKS, len(urls)).tolist(), strict=True):
        found = weather.resolve(url.split(b"/")[2], at)
        if found is None or found.address is None:
            met["unresolved" if found is None else "unknown name"] += 1
        else:
            met[str(weather.answer(url, found.address, at).status)] += 1
    asked = time.process_time()
    fates = Counter(weather.verdict(url, 0.0, FOUR_WEEKS).name.lower() for url in urls)
    answered = sum(count for what, count in met.items() if what.isdigit())
    return {
        "seed": weather.web.params.seed, "urls": len(urls),
        "met": {what: round(count / len(urls), 4) for what, count in met.most_common()},
        "of_answers": {what: round(met[what] / answered, 4) for what in sorted(met) if what.isdigit()},
        "in_four_weeks": {what: round(count / len(urls), 4) for what, count in fates.most_common()},
        "asked_per_cpu_s": round(len(urls) / (asked - begin)),
        "judged_per_cpu_s": round(len(urls) / (time.process_time() - asked)),
    }  # fmt: skip


def _serve(params: Params, weather: WeatherParams | None, options: argparse.Namespace) -> int:
    where = options.dir.absolute()
    how = {
        "addresses": options.addresses, "speed": options.speed, "run_seconds": options.run_seconds, "weather": weather,
        "weather_speed": options.weather_speed,
    }  # fmt: skip
    with until_told() as wait, serving(params, where / "access.log", **how) as served:
        config, seeds = where / "crawl.toml", where / "seeds.txt"
        config.write_text(CONFIG.format(resolver=json.dumps(served.resolver)))
        seeds.write_text("".join(url + "\n" for url in served.seeds(options.seeds)))
        crawl = ["irlcrawl", "crawl", where / "job", "--seeds", seeds, "--config", config]
        print(shlex.join(map(str, crawl)), flush=True)
        wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
