"""What a crawl loses and stores twice when its workers, Redis and MongoDB are killed in its midst."""

from functools import partial

from bench.crawl.ordeal import WORKERS, Plan, ordeal
from bench.crawl.peers import STORING
from bench.frame import Bars, Bench, Figures, Part, figures_of
from bench.servers import find_mongo

_TITLES = {name.removesuffix("_storing"): peer.title for name, peer in STORING.items()}


def measure(bench: Bench) -> Figures:
    """Let each peer go through the same ordeal."""
    mongo_kills = 1 if find_mongo().is_mongod else 0
    if not mongo_kills:
        bench.notes.append("faults: MongoDB was not killed, as no mongod runs here, only a stand-in.")
    plan = bench.choose(Plan(1500, 8, 2, mongo_kills), Plan(400, 2, 1, mongo_kills))
    return figures_of(bench.in_turns(1, {name: partial(ordeal, plan, f"{name}_storing") for name in _TITLES}))


PART = Part(
    "faults",
    "Killed in the midst of a crawl",
    f"""{WORKERS} workers crawl the sample site and store an item for each page in MongoDB, while workers, Redis
    and MongoDB are killed (SIGKILL) at random moments, the same ones for each peer; a killed worker is replaced
    at once, a killed server is back after a second with the data that it has. Redis keeps its append-only file
    as the deployment does, MongoDB its journal. When nothing is left to do, what is stored is compared with
    what the site says that a crawl must store. scrapy-redis has a pipeline with insert_one, as Scrapy's
    documentation shows it.""",
    measure,
    {
        "lost_pages": "pages of the site of which nothing was stored",
        "doubled_documents": "documents of pages that were stored before",
        "kills": "how often a worker or a server was killed",
        "pages": "pages of the site",
        "crashed_workers": "workers that ended in an error by themselves; each was replaced",
    },
    [
        Bars("Lost pages", "lost_pages", _TITLES),
        Bars("Documents stored twice", "doubled_documents", _TITLES),
    ],
)
