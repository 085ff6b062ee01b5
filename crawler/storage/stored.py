"""Pages of `raw_pages` read back: those of a spider, one by one, and each as the response that it was."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError
from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from crawler.errors import BadPageError, StorageError
from crawler.storage.client import Database, reason
from crawler.storage.documents import body_of
from crawler.storage.itemtypes import RAW_PAGES
from crawler.storage.values import plain_name

logger = logging.getLogger(__name__)

#: Pages of one answer; a large one would wait in memory, compressed.
BATCH_PAGES = 100
#: How long to wait for a MongoDB that is away before it is asked again.
PAUSE_S = 2.0

Page = dict[str, Any]


class Selection(msgspec.Struct, frozen=True):
    """Say which pages of a spider are meant."""

    spider: str
    #: A regular expression, as MongoDB reads it, which the address must match somewhere.
    url: str = ""
    #: When the page was fetched last: not before the one, and before the other.
    since: datetime | None = None
    until: datetime | None = None

    @property
    def order(self) -> str:
        """Return the field in whose order the pages come.

        It has an index, so nothing is sorted, and reading can go on where it was cut off. With neither a pattern nor a
        date it is `_id`: one pass over the collection, which passes over the pages of other spiders. An index on the
        spider would spare that; but all that write pages would have to pay for it.
        """
        return "url" if self.url else "crawled_at" if self.since or self.until else "_id"

    def criteria(self, last: object = None) -> dict[str, Any]:
        """Return MongoDB's filter for these pages, from that on whose `order` field is *last*."""
        criteria: dict[str, Any] = {"spider": self.spider}
        if self.url:
            criteria["url"] = {"$regex": self.url}
        if times := {name: time for name, time in (("$gte", self.since), ("$lt", self.until)) if time}:
            criteria["crawled_at"] = times
        if last is not None:
            criteria[self.order] = criteria.get(self.order, {}) | {"$gte": last}
        return criteria


async def read(database: Database, selection: Selection) -> AsyncGenerator[Page]:
    """Give the documents of the selected pages, each once, as they are when it is their turn. Constant memory.

    While MongoDB is away it waits, and then goes on where it was. Raises StorageError when MongoDB refuses.
    """
    last: Any = None
    given: set[bytes] = set()  # of those whose `order` field is *last*: two POSTs to one URL are two pages
    while True:
        try:
            found = database[RAW_PAGES].find(selection.criteria(last), batch_size=BATCH_PAGES)
            async with found.sort(selection.order).hint([(selection.order, 1)]) as pages:
                async for page in pages:
                    if page[selection.order] != last:
                        last = page[selection.order]
                        given.clear()
                    if page["_id"] not in given:
                        given.add(page["_id"])
                        yield page
        except CursorNotFound:
            pass  # nobody asked for so long that MongoDB forgot it, or it was restarted
        except OperationFailure as error:
            what = "the pages" + (f" whose address matches {selection.url!r}" * bool(selection.url)) + " can't be read"
            if "hint" in str(error):
                what = f"raw_pages has no index on {selection.order}, which `python -m crawler.storage.setup` makes"
            raise StorageError(f"MongoDB: {what} ({reason(error)})") from None
        except PyMongoError as error:
            logger.warning("MongoDB gives no pages (%s): it is asked again", reason(error))
            await asyncio.sleep(PAUSE_S)
        else:
            return


def response_of(page: Mapping[str, Any], request: Request, *, flags: tuple[str, ...] = ()) -> Response:
    """Return the response that *page*, a document of `raw_pages`, was made of, to *request*; O(bytes).

    Its class is chosen as a download's is. What is not stored is not there: certificate, ip_address, protocol, and in
    the request what belonged to its download. Raises BadPageError.
    """
    try:
        headers = Headers()
        for name, values in page["headers"].items():
            headers.setlist(plain_name(name).encode("latin-1"), [value.encode("latin-1") for value in values])
        url, body = page["final_url"], body_of(page)
        kind = responsetypes.from_args(headers=headers, url=url, body=body)
        kept_flags = [flag for flag in page["flags"] if flag not in flags]
        return kind(url, page["status"], headers, body, [*kept_flags, *flags], request)
    except Exception as error:  # whatever is in MongoDB
        raise BadPageError(f"its document can't be read: {type(error).__name__}: {error}") from error
