"""How a worker that can't start, or can't go on, says so: once, in words, and with a non-zero exit code."""

import logging

from crawler.errors import SeedbedError

logger = logging.getLogger(__name__)

#: Those that would print the error's traceback after it was told in words.
LOUD_LOGGERS = ("asyncio", "twisted", "scrapy.core.engine")


def told(error: SeedbedError) -> SeedbedError:
    """Log *error* in words and return it, to be raised; Scrapy then ends with exit code 1 and no traceback follows."""
    logger.critical("%s", error)
    for name in LOUD_LOGGERS:
        logging.getLogger(name).addFilter(_is_news)
    return error


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], SeedbedError))
