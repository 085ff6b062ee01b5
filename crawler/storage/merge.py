"""What becomes of a document that is there already when it comes again: the newer one wins, whatever the order.

Of two documents with one `_id` the one that was crawled later stays; of two items from one fetch of a page that which
was parsed later; and of two from the same millisecond (one item twice on a page) that with the greater checksum. So
writing is idempotent and needs no order: a batch may be written twice, two batches may overtake each other, and what a
spool gives back late changes nothing. Besides:

* `changed_at` of a page and `updated_at` of an item are from when its content became what it is;
* `fetches` of a page counts the crawls that fetched it: when a crawl fetches a page again, after a worker's death or
  because the spider asks for it, that is the same fetch.
"""

from typing import Any

from pymongo import UpdateOne

from crawler.storage.documents import Document
from crawler.storage.itemtypes import RAW_PAGES

#: The fields that tell which of two documents is the newer one, the first that differs; the last one is the content's.
PAGE_VERSION = ("crawled_at", "checksum")
ITEM_VERSION = ("crawled_at", "parsed_at", "_checksum")


def merge(document: Document) -> UpdateOne:
    """Return the update that gives the document which is there the content of *document*, if that is newer."""
    new = document.fields
    is_page = document.collection == RAW_PAGES
    version, since = (PAGE_VERSION, "changed_at") if is_page else (ITEM_VERSION, "updated_at")
    its_version = [_literal(new[field]) for field in version]
    kept: dict[str, Any] = {since: _if({"$eq": [f"${version[-1]}", its_version[-1]]}, f"${since}", new[since])}
    if is_page:
        is_same_crawl = {"$eq": ["$crawl", _literal(new["crawl"])]}
        kept["fetches"] = {"$add": ["$fetches", _if(is_same_crawl, 0, 1)]}
    # A field that is not there, as in what an earlier version wrote, is less than any other.
    is_older = {"$lt": [[f"${field}" for field in version], its_version]}
    merged = {"$mergeObjects": [_literal(new), kept]}
    # In the update, not in the filter: so the document is found by its `_id` alone, the quickest way there is.
    return UpdateOne({"_id": new["_id"]}, [{"$replaceWith": _if(is_older, merged, "$$ROOT")}])


def _literal(value: object) -> dict[str, Any]:
    return {"$literal": value}


def _if(condition: object, then: object, otherwise: object) -> dict[str, Any]:
    return {"$cond": [condition, then, otherwise]}
