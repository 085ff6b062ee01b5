"""The items of the spiders that ship."""

from dataclasses import dataclass, field
from decimal import Decimal

from crawler.storage import stored_as


@stored_as("pages")
@dataclass
class Page:
    """What a web page says of itself; one a page."""

    url: str
    title: str | None = None
    description: str | None = None
    language: str | None = None
    headings: list[str] = field(default_factory=list)
    #: Links to other pages, each counted once.
    link_count: int = 0


@stored_as("products", key="sku")
@dataclass
class Product:
    """A product that a shop sells, by its stock-keeping unit."""

    sku: str | None
    title: str | None = None
    price: Decimal | None = None
    #: ISO 4217.
    currency: str | None = None
    #: As schema.org has it: InStock, OutOfStock, PreOrder, ...
    availability: str | None = None
    url: str = ""
