"""What the shop sells and how its pages hang together, computed from numbers: nothing is stored for a page."""

from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple

from bench.site.config import NAVIGATION_LINKS, SiteConfig
from bench.site.words import PRODUCT_NAMES, Name

_MASK = (1 << 64) - 1

# Multiples of these fractions of 2**64 are spread evenly (sqrt 2, 3, 5, 7), so that even a small site has its share
# of each trait, and the traits do not depend on each other.
_MOVED = 0x6A09E667F3BCC909
_FAILING = 0xBB67AE8584CAA73B
_SLOW = 0x3C6EF372FE94F82B
_PRICE = 0xA54FF53A5F1D36F1


class Kind(IntEnum):
    """What an address leads to."""

    HOME = 0
    CATEGORY = 1
    PRODUCT = 2
    REDIRECT = 3
    PRIVATE = 4
    MISSING = 5


_GOODS = (Kind.CATEGORY, Kind.PRODUCT)


class Page(NamedTuple):
    """One page: its kind, its number, and for a category the part (from 1) of its listing."""

    kind: Kind
    number: int
    part: int = 0


class Product(NamedTuple):
    """What a product's page says of it, and thus what a crawl must have read."""

    sku: str
    title: str
    price: Decimal
    currency: str
    availability: str
    language: str
    url: str


def mix(*numbers: int) -> int:
    """Hash numbers to 64 bits, the same ones everywhere (the finalizer of SplitMix64)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


class Shop:
    """Know every page of one site: how many there are, which follow from which, and what each one is like."""

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self.hosts = len(config.host_names)
        self.products = config.products
        self.categories = config.categories
        self.listed = config.links_per_page - NAVIGATION_LINKS
        self.missing = _at_least_one(config.missing_share * config.products)
        self.private = _at_least_one(config.private_share * config.products)
        self._offset = mix(config.seed)
        self._moved = _threshold(config.moved_share)
        self._failing = _threshold(config.failing_share)
        self._slow = _threshold(config.slow_share)

    # Counts

    def category_size(self, category: int) -> int:
        """Count the products of a category: those whose number leaves it when divided by the number of categories."""
        return (self.products - category + self.categories - 1) // self.categories

    def parts(self, category: int) -> int:
        """Count the pages of a category's listing; an empty category has one."""
        return max(1, -(-self.category_size(category) // self.listed))

    def page_count(self) -> int:
        """Count the pages that a correct crawl stores. O(1)."""
        full = self.products % self.categories
        listings = full * self.parts(0) + (self.categories - full) * self.parts(self.categories - 1)
        return self.hosts + listings + self.products

    def pages(self) -> Iterator[Page]:
        """Go through the pages that a correct crawl stores, each once."""
        for host in range(self.hosts):
            yield Page(Kind.HOME, host)
        for category in range(self.categories):
            for part in range(1, self.parts(category) + 1):
                yield Page(Kind.CATEGORY, category, part)
        for number in range(self.products):
            yield Page(Kind.PRODUCT, number)

    def exists(self, page: Page) -> bool:
        """Tell whether the site has such a page, be it for a polite crawler or not."""
        kind, number, part = page
        if kind is Kind.PRODUCT:
            return number < self.products
        if kind is Kind.CATEGORY:
            return number < self.categories and 1 <= part <= self.parts(number)
        if kind is Kind.REDIRECT:
            return number < self.products and self.is_moved(number)
        if kind is Kind.PRIVATE:
            return number < self.private
        return kind is Kind.HOME

    # Traits

    def host_of(self, page: Page) -> int:
        """Give the host on which a page lives: a category's products are spread over all of them."""
        kind, number, _ = page
        if kind is Kind.PRODUCT:
            return (number + number // self.categories) % self.hosts
        if kind is Kind.REDIRECT:
            return (number + number // self.categories + 1) % self.hosts
        return number % self.hosts

    def is_moved(self, product: int) -> bool:
        """Tell whether the product is reached through a redirect."""
        return self._trait(product, _MOVED) < self._moved

    def is_moved_for_good(self, product: int) -> bool:
        """Tell whether a moved product answers 301, not 302; then nobody links to its new address at all."""
        return bool(mix(self._offset, product) & 1)

    def fails_once(self, page: Page) -> bool:
        """Tell whether the page, of a product or a category, answers 500 the first time."""
        return page.kind in _GOODS and self._trait(self._ordinal(page), _FAILING) < self._failing

    def is_slow(self, page: Page) -> bool:
        """Tell whether the page, of a product or a category, is answered late."""
        return page.kind in _GOODS and self._trait(self._ordinal(page), _SLOW) < self._slow

    def _ordinal(self, page: Page) -> int:
        return page.number if page.kind is Kind.PRODUCT else self.products + page.number * 1_000_003 + page.part

    def _trait(self, ordinal: int, multiplier: int) -> int:
        return ((ordinal * multiplier + self._offset) & _MASK) >> 32

    # Goods

    def name_of(self, product: int) -> Name:
        """Give the product's name, without its number."""
        return PRODUCT_NAMES[product % len(PRODUCT_NAMES)]

    def product(self, number: int, url: str) -> Product:
        """Describe a product."""
        name = self.name_of(number)
        draw = self._trait(number, _PRICE)
        availability = ("InStock", "InStock", "InStock", "OutOfStock", "PreOrder")[draw % 5]
        price = Decimal(199 + draw % 49_800).scaleb(-2)
        title = f"{name.title} {number}"
        return Product(f"SKU-{number:08d}", title, price, name.language.currency, availability, name.language.code, url)


def _threshold(share: float) -> int:
    return round(share * (1 << 32))


def _at_least_one(amount: float) -> int:
    return max(1, round(amount)) if amount > 0 else 0
