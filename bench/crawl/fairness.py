"""Fast hosts behind a slow one: 1,000 pages of a host with a delay come first, then ten of each of nine others."""

import subprocess
import time
from dataclasses import replace

from bench.crawl.track import SITE, Track
from bench.frame import Run
from crawler.frontier.controls import Controls
from crawler.frontier.keys import Keys

SLOW, *FAST = (f"127.0.0.{number}" for number in range(1, 11))
SLOW_PAGES, FAST_PAGES = 1000, 10
DELAY_S = 1.0
#: It is stopped then: with the slow host in front, it would take 1,000 s.
PATIENCE_S = 15

#: The site of this race, whose log tells when each page was asked for.
HOSTS = replace(SITE, host_names=(SLOW, *FAST), log_size=2 * SLOW_PAGES)


def race(track: Track, peer: str) -> Run:
    """Return how many of the fast hosts' pages were fetched when patience ran out, and how long the last one took."""
    track.redis.flushall()
    track.site.reset()
    Controls(track.redis, Keys.of("bench"), "").set_delay(SLOW, int(1000 * DELAY_S))
    port = track.site.config.port
    urls = [f"http://{SLOW}:{port}/none/{number}" for number in range(SLOW_PAGES)]
    urls += [f"http://{host}:{port}/none/{number}" for number in range(FAST_PAGES) for host in FAST]
    process = track.start(peer, urls, DOWNLOAD_SLOTS={SLOW: {"delay": DELAY_S, "concurrency": 1}})
    try:
        fast = _watch(track, process)
    finally:
        process.kill()
        process.communicate()
    return {f"fast_pages_of_{len(FAST) * FAST_PAGES}_after_{PATIENCE_S}_s": len(fast)}


def _watch(track: Track, process: "subprocess.Popen[str]") -> list[float]:
    began_s = 0.0
    while process.poll() is None:
        log = track.site.log()
        if log and not began_s:
            began_s = log[0]["monotonic_s"]
        fast = [entry["monotonic_s"] for entry in log if entry["host"] != SLOW]
        if len(fast) == len(FAST) * FAST_PAGES or (began_s and time.monotonic() > began_s + PATIENCE_S):
            return fast
        time.sleep(0.2)
    raise RuntimeError("the crawl of the fast and the slow hosts ended early")
