"""How fast the storage path is as a component: an item in, durable in MongoDB out (`python -m bench.storage_path`).

The same documents go to the same server in several ways, turn by turn, each time into an empty collection, all with a
majority and the journal: by `insert_one` one at a time, by `bulk_write` of 500 inserts, and through the storage, which
starts from items, not from documents that are ready to be sent. Pages are measured likewise; the storage compresses
them, while its peer is given what came out of that. What counts is the median of the rounds.

The storage does without the driver's retryable writes, which are a sixth of the server's work, as it repeats by itself
what fails. Its peer has them, as every client has by default; how it does without them is shown, too.
"""

import argparse
import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from time import perf_counter
from typing import Any, NamedTuple

import bson
from pymongo import AsyncMongoClient, InsertOne
from rich.console import Console
from rich.table import Table

from bench.servers import EmbeddedMongo
from bench.site.words import filler
from crawler.config import Config
from crawler.items import Product
from crawler.storage.buffer import IN_FLIGHT, Buffer
from crawler.storage.client import DURABLE, Database
from crawler.storage.destination import Destination
from crawler.storage.documents import Draft, RawPage, Source, encode_pages, item_document
from crawler.storage.writer import Writer

BATCH_DOCS = 500
PAGE_BYTES = 20_000

#: What is asked of the storage, as shares of its peers' rates in the same run.
WANTED_OF_BULK, WANTED_OF_ONE = 0.7, 15

Document = dict[str, Any]


class Way(NamedTuple):
    """One way to store documents, and how many of them one round takes."""

    name: str
    documents: int
    work: Callable[[], Awaitable[None]]


async def insert_one(database: Database, documents: Iterable[Document]) -> None:
    """Store documents one at a time, as the usual pipeline does."""
    for document in documents:
        await database["documents"].insert_one(document)


async def bulk_write(database: Database, documents: list[Document]) -> None:
    """Store documents in batches, as many of them at once as the storage has."""
    batches = iter([documents[start : start + BATCH_DOCS] for start in range(0, len(documents), BATCH_DOCS)])

    async def write_batches() -> None:
        for batch in batches:
            await database["documents"].bulk_write([InsertOne(document) for document in batch], ordered=False)

    await asyncio.gather(*(write_batches() for _ in range(IN_FLIGHT)))


async def store(writer: Writer, drafts: Iterable[Draft]) -> None:
    """Put documents through the buffer and the writer, as the extension does."""
    config = Config()
    buffer = Buffer(
        writer.write,
        _give_up,
        batch_docs=config.store_batch_docs,
        batch_bytes=config.store_batch_bytes,
        flush_s=config.store_flush_s,
        limit_bytes=config.store_buffer_bytes,
    )
    for number, draft in enumerate(drafts):
        buffer.put(draft)
        if buffer.is_full:
            await buffer.wait_for_room()
        if number % 16 == 0:  # a crawl lets go of the event loop after each page
            await asyncio.sleep(0)
    await buffer.drain(600)


def _count_nothing(_name: str, _number: float) -> None:
    pass


def _give_up(error: BaseException) -> None:
    raise error


def items(number: int) -> Iterator[tuple[Product, Source]]:
    """Give products as a shop has them: 1 KB each, some hundred different prices."""
    text = filler(1_000_000).decode()
    for n in range(number):
        url = f"http://shop.example/product/{n}"
        price = Decimal(n % 500 * 100 + 99).scaleb(-2)
        product = Product(f"SKU-{n:08d}", text[n % 900_000 :][:650], price, "EUR", "InStock", url)
        yield product, Source(url, datetime.now(UTC), n.to_bytes(20, "big"), 0)


def pages(number: int) -> Iterator[RawPage]:
    """Give pages of 20 KB that compress about as prose does."""
    text = filler(4_000_000)
    headers = [(b"Content-Type", b"text/html; charset=utf-8"), (b"Server", b"shop"), (b"Vary", b"Accept-Encoding")]
    for n in range(number):
        url = f"http://shop.example/page/{n}"
        start = n * 977 % (len(text) - PAGE_BYTES)
        body = text[start : start + PAGE_BYTES]
        yield RawPage(n.to_bytes(20, "big"), url, url, 200, headers, body, [], "shop", "bench", datetime.now(UTC))


async def measure(uri: str, documents: int, rounds: int) -> dict[str, list[float]]:
    """Return the documents a second of each way in each round."""
    some_items, some_pages = list(items(documents)), list(pages(documents // 10))
    plain_items = [bson.decode(item_document(*item).raw) for item in some_items]
    plain_pages = [bson.decode(page.raw) for page in encode_pages(some_pages)]
    few = plain_items[: documents // 40]
    config = Config(mongo_uri=uri, mongo_database=(name := "bench_storage_path"))
    async with AsyncMongoClient[Document](uri) as client, AsyncMongoClient[Document](uri, retryWrites=False) as bare:
        destination = Destination(config, _count_nothing)
        writer = Writer(destination, None, _count_nothing)
        usual, once = (of.get_database(name, write_concern=DURABLE) for of in (client, bare))
        ways = (
            Way(ONE, len(few), lambda: insert_one(usual, few)),
            Way(BULK, len(plain_items), lambda: bulk_write(usual, plain_items)),
            Way(BULK_ONCE, len(plain_items), lambda: bulk_write(once, plain_items)),
            Way(OURS, len(some_items), lambda: store(writer, (item_document(*item) for item in some_items))),
            Way(BULK_PAGES, len(plain_pages), lambda: bulk_write(usual, plain_pages)),
            Way(OUR_PAGES, len(some_pages), lambda: store(writer, some_pages)),
        )
        rates: dict[str, list[float]] = {way.name: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                await client.drop_database(name)
                begin_s = perf_counter()
                await way.work()
                rates[way.name].append(way.documents / (perf_counter() - begin_s))
        await client.drop_database(name)
        writer.close()
        await destination.close()
    return rates


ONE = "insert_one, one at a time"
BULK = f"bulk_write of {BATCH_DOCS}, {IN_FLIGHT} at once"
BULK_ONCE = f"{BULK}, without retryable writes"
OURS = "the storage, from items"
BULK_PAGES = f"{BULK}: pages, compressed before"
OUR_PAGES = f"the storage: pages of {PAGE_BYTES // 1000} KB, compressed by it"


def main() -> int:
    """Measure and print; return 1 where the storage is slower than it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=40_000, help="items a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of all ways (%(default)s)")
    parser.add_argument("--uri", help="a MongoDB that runs already (default: one of its own)")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        uri = arguments.uri or stack.enter_context(EmbeddedMongo(replica_set="rs0")).url
        found = asyncio.run(measure(uri, arguments.documents, arguments.rounds))
    rates = {name: statistics.median(of_rounds) for name, of_rounds in found.items()}
    table = Table("way", "documents/s", "of insert_one", "of bulk_write")
    for name, rate in rates.items():
        bulk = rates[BULK_PAGES if name in (BULK_PAGES, OUR_PAGES) else BULK]
        table.add_row(name, f"{rate:,.0f}", f"{rate / rates[ONE]:.1f}", f"{rate / bulk:.2f}")
    Console().print(table)
    of_bulk, of_one = rates[OURS] / rates[BULK], rates[OURS] / rates[ONE]
    print(f"wanted: {WANTED_OF_BULK} of bulk_write's rate, and {WANTED_OF_ONE} of insert_one's")
    return 0 if of_bulk >= WANTED_OF_BULK and of_one >= WANTED_OF_ONE else 1


if __name__ == "__main__":
    raise SystemExit(main())
