"""Parse stored pages again: a run of Scrapy whose responses come from MongoDB, and which fetches nothing.

The spider, its middlewares, the pipelines and the feeds work as in a crawl; what would fetch is replaced.

============  ====================================================================================
`run.py`      what is to be parsed, and what became of it
`engine.py`   scheduler, middlewares and settings, by which Scrapy's engine takes pages from there
`items.py`    the storage: items are compared with those that are there, and pages are left alone
============  ====================================================================================
"""

from crawler.reparse.engine import prepare
from crawler.reparse.run import TROUBLES, Run

__all__ = ["TROUBLES", "Run", "prepare"]
