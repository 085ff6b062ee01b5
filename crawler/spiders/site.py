"""Any web site: one item a page, and every link that stays on the site."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response

from crawler.errors import ConfigError
from crawler.html import Html, host_of, is_within, read_html
from crawler.items import Page
from crawler.links import Links
from crawler.refusal import refuse
from crawler.start_urls import check_url


class SiteSpider(Spider):
    """Crawl a site: `scrapy crawl site -a url=https://site.example/`, or a seed: `scrapy seed site https://site.example/`.

    url: where to begin; several addresses are separated by spaces. allowed_domains: where to stay, separated by commas
    or spaces, each with everything below it; by default the host of each address, or of each seed.
    """

    name = "site"

    def __init__(self, url: str = "", allowed_domains: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = url.split()
        self.allowed_domains = allowed_domains.lower().replace(",", " ").split()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Make the spider; an address that is none ends the crawl before it begins."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        try:
            for url in spider.start_urls:
                check_url(url)
        except ValueError as error:
            refuse(crawler, ConfigError(f"-a url: {error}"))
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Begin at each address."""
        for url in self.start_urls:
            yield Request(url)

    def parse(self, response: Response, domains: list[str] | None = None) -> Iterator[Any]:
        """Give a page's items, and its links within *domains*, which each link hands on to whichever worker gets it."""
        domains = self.allowed_domains or domains or home_of(response)
        if not isinstance(response, HtmlResponse) or not is_within(host_of(response.url), domains):
            return
        html = read_html(response)
        yield from self.items(response, html)
        yield from follow(html.links, domains)

    def items(self, response: HtmlResponse, html: Html) -> Iterator[Any]:
        """Give what the page says of itself."""
        yield Page(response.url, html.title, html.description, html.language, html.headings, len(html.links))


def follow(links: list[str], domains: list[str]) -> Iterator[Links]:
    """Ask for those links that are within *domains*.

    A link carries the domains only where they are not just its own host, which is what it would take them to be: the
    links of most sites stay as small in the queue as they can be.
    """
    hosts = {link: host_of(link) for link in links}
    within = [link for link in links if is_within(hosts[link], domains)]
    home = [link for link in within if [hosts[link]] == domains]
    if home:
        yield Links(home)
    if len(within) > len(home):
        yield Links([link for link in within if [hosts[link]] != domains], cb_kwargs={"domains": domains})


def home_of(response: Response) -> list[str]:
    """Return the domains that a page without any stays in: its host as it was linked, and for a seed as it answered.

    So a seed may be redirected to its site's real address, and a link that is redirected elsewhere ends there.
    """
    request: Any = response.request
    asked = host_of(response.meta.get("redirect_urls", [request.url])[0])
    answered = host_of(response.url)
    if response.meta.get("depth") or is_within(answered, [asked]):
        return [asked]
    return [answered, asked]
