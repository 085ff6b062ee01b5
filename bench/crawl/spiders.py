"""The spider of the benchmarks, in two dialects: it follows every link of every page, and keeps nothing."""

from collections.abc import Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from crawler.links import Links


class RequestsSpider(Spider):
    """Yield a Request for each link, as any spider for plain Scrapy does."""

    name = "bench"

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow every link."""
        for url in links_of(response):
            yield Request(url)


class LinksSpider(RequestsSpider):
    """Yield all links of a page as one object."""

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow every link."""
        yield Links(links_of(response))


class StoringSpider(RequestsSpider):
    """Yield an item for each page, too."""

    def parse(self, response: Response) -> Iterator[Any]:
        """Say which page this is, and follow every link."""
        yield {"url": response.url}
        yield from super().parse(response)


def links_of(response: Response) -> list[str]:
    """Return the addresses of all links of a page."""
    return [response.urljoin(href) for href in response.css("a::attr(href)").getall()]
