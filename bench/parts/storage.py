"""How many documents a second become durable in MongoDB: in the usual ways, and through the storage."""

import asyncio
from contextlib import ExitStack

from bench import storage_path
from bench.frame import Bars, Bench, Figure, Figures, Part
from bench.servers import EmbeddedMongo, find_mongo

_WAYS = {
    "insert_one": storage_path.ONE,
    "bulk": storage_path.BULK,
    "ours": storage_path.OURS,
    "bulk_pages": storage_path.BULK_PAGES,
    "ours_pages": storage_path.OUR_PAGES,
}

_TITLES = {
    "insert_one": "insert_one",
    "bulk": "bulk_write",
    "ours": "Seedbed, items",
    "bulk_pages": "bulk_write, pages",
    "ours_pages": "Seedbed, pages",
}


def measure(bench: Bench) -> Figures:
    """Store the same documents in each way in each round."""
    program = find_mongo()
    documents, rounds = bench.choose(20_000, 5_000), bench.choose(5, 2)
    with ExitStack() as stack:
        replica_set = "rs0" if program.is_mongod else None
        server = stack.enter_context(EmbeddedMongo(program, replica_set=replica_set))
        for _ in bench.steps([f"{rounds} rounds of {len(_WAYS)} ways"]):
            rates = asyncio.run(storage_path.measure(server.url, documents, rounds))
    bench.notes.append(f"storage: {program}.")
    figures = {f"{name}.docs_per_s": Figure.of(rates[way]) for name, way in _WAYS.items()}
    ones, bulks, ours = (rates[_WAYS[name]] for name in ("insert_one", "bulk", "ours"))
    return figures | {
        "ratio_ours_to_insert_one": Figure.of(a / b for a, b in zip(ours, ones, strict=True)),
        "ratio_ours_to_bulk": Figure.of(a / b for a, b in zip(ours, bulks, strict=True)),
    }


PART = Part(
    "storage",
    "Documents into MongoDB",
    f"""The same documents go to the same server, turn by turn, each time into an empty collection, acknowledged by a
    majority and the journal: one at a time, by bulk_write of {storage_path.BATCH_DOCS}, and through the storage, which
    begins with items, not with documents that are ready to be sent. Pages of {storage_path.PAGE_BYTES // 1000} KB
    likewise; the storage compresses them, and its peer is given what came out of that.""",
    measure,
    {
        "docs_per_s": "documents a second that are durable",
        "ratio_ours_to_insert_one": "the storage against insert_one, items",
        "ratio_ours_to_bulk": "the storage against bulk_write, items",
    },
    [Bars("Documents a second, durable", "docs_per_s", _TITLES)],
)
