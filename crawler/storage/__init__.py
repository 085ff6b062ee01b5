"""Pages and items in MongoDB: in bulk, never blocking, each once.

=================  ===========================================================================================
`extension.py`     the Scrapy extension: what arises, to whom the scheduler talks
`middleware.py`    the spider middleware that gives it every page
`itemtypes.py`     which collection an item goes to, and its natural key (`stored_as`)
`places.py`        an item's place on its page, which is its key where it has no natural one
`origin.py`        the request that a page answers, as a seed; `stored.py`: pages read back, as responses
`conditional.py`   the downloader middleware by which only what has changed is fetched
`documents.py`     pages, items and rejects as documents; `values.py`: values that MongoDB lacks
`store.py`         the whole way of a document, opened and closed as one
`buffer.py`        batches on their way, bounded; `writer.py`: one batch, until it is durable
`destination.py`   MongoDB, tried once; `merge.py`: what becomes of a document that is there already
`spool.py`         batches on this machine's disk while MongoDB is away; `spoolfile.py`: one file of them
`replay.py`        from the spool to MongoDB, when it is back
`archive/`         old pages in WARC files
`opened.py`        the connection of a command; `maintenance.py`: the note of the last backup
`client.py`        the connection; `setup.py`: replica set, accounts and indexes, once before the workers
=================  ===========================================================================================
"""

from crawler.storage.conditional import ConditionalRequests
from crawler.storage.extension import Storage
from crawler.storage.itemtypes import stored_as
from crawler.storage.middleware import RawPages

__all__ = ["ConditionalRequests", "RawPages", "Storage", "stored_as"]
