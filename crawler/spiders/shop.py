"""Any shop that describes its products in the vocabulary of schema.org: one item a product."""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from scrapy.http import HtmlResponse

from crawler.html import Html
from crawler.items import Product
from crawler.schema_org import Thing, as_list, things
from crawler.spiders.site import SiteSpider


class ShopSpider(SiteSpider):
    """Crawl a shop: as `site` crawls a site, with the same arguments, but the items are products."""

    name = "shop"

    def items(self, response: HtmlResponse, html: Html) -> Iterator[Product]:  # noqa: ARG002 - what `site` goes by
        """Give the products that a page is about."""
        for thing in things(response, "Product"):
            yield product(thing, response.url)


def product(thing: Thing, url: str) -> Product:
    """Return a thing of the type Product as an item; of several offers the first counts."""
    offers = [offer for offer in as_list(thing.get("offers")) if isinstance(offer, dict)]
    offer = offers[0] if offers else {}
    availability = _text(offer, "availability")
    return Product(
        sku=_text(thing, "sku", "productID", "gtin13", "gtin", "mpn"),
        title=_text(thing, "name"),
        price=_price(_text(offer, "price", "lowPrice")),
        currency=_text(offer, "priceCurrency"),
        availability=availability.rpartition("/")[2] if availability else None,
        url=url,
    )


def _text(thing: Thing, *names: str) -> str | None:
    """Return the first value, as text, of the first property that has one."""
    values = (value for name in names for value in as_list(thing.get(name)))
    return next(
        (str(value).strip() for value in values if isinstance(value, str | Decimal) and str(value).strip()), None
    )


def _price(text: str | None) -> Decimal | None:
    if text is None:
        return None
    if re.fullmatch(r"\d+,\d\d", text):  # the standard wants a point
        text = text.replace(",", ".")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
