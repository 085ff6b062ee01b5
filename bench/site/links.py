"""Which pages a page links to, and how it spells each link: the graph that a crawl walks."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.site.addresses import CANONICAL, Addresses, Spelling
from bench.site.shop import Kind, Page, Shop, mix

_MASK = (1 << 64) - 1


class Link(NamedTuple):
    """A link: the page it leads to and the spelling of its address."""

    target: Page
    spelling: Spelling


class PageLinks(NamedTuple):
    """The links of one page by the place they have on it; `links_per_page` in all."""

    navigation: list[Link]
    listing: list[Link]
    cross: list[Link]


class Links:
    """Give the links of each page of one site.

    Every page of the site can be reached from the first home page, over a number of links that grows with the
    logarithm of the site's size: homes, categories and the parts of a listing each form a binary tree, and each
    product is listed once.
    """

    def __init__(self, shop: Shop, addresses: Addresses) -> None:
        self._shop = shop
        self._seed = shop.config.seed
        self._links_per_page = shop.config.links_per_page
        self._spellings = addresses.spellings
        self._spelled = round(shop.config.spelling_share * 256) if addresses.spellings else 0

    def of(self, page: Page) -> PageLinks:
        """Give a page's links. O(links)."""
        draws = _draws(mix(self._seed, *page))
        navigation = self._spell(self._navigation(page), draws)
        listing = self._spell(self._listing(page), draws) if page.kind is Kind.CATEGORY else []
        rest = self._links_per_page - len(navigation) - len(listing)
        cross = self._spell([self._drawn(next(draws)) for _ in range(rest)], draws)
        return PageLinks(navigation, listing, cross)

    def _navigation(self, page: Page) -> list[Page]:
        """Give up to NAVIGATION_LINKS pages: with the listings, those that make everything reachable."""
        shop = self._shop
        kind, number, part = page
        home = Page(Kind.HOME, shop.host_of(page))
        if kind is Kind.HOME:
            homes = [Page(Kind.HOME, child) for child in _children(number, shop.hosts)]
            return [home, Page(Kind.CATEGORY, number % shop.categories, 1), *homes]
        if kind is Kind.CATEGORY:
            last = shop.parts(number)
            parts = {part - 1, part + 1, 2 * part, 2 * part + 1, last} & set(range(1, last + 1)) - {part}
            return [
                home,
                *(Page(Kind.CATEGORY, child, 1) for child in _children(number, shop.categories)),
                *(Page(Kind.CATEGORY, number, other) for other in sorted(parts)),
            ]
        if kind is Kind.PRODUCT:
            place, category = divmod(number, shop.categories)
            return [home, Page(Kind.CATEGORY, category, place // shop.listed + 1)]
        return [home]

    def _listing(self, page: Page) -> list[Page]:
        """Give the products that one part of a category lists; the moved ones by their old address."""
        shop = self._shop
        first = page.number + (page.part - 1) * shop.listed * shop.categories
        numbers = range(first, shop.products, shop.categories)[: shop.listed]
        return [Page(Kind.REDIRECT if shop.is_moved(number) else Kind.PRODUCT, number) for number in numbers]

    def _drawn(self, draw: int) -> Page:
        """Give the page that a cross link leads to: one in 32 is missing, and one private."""
        shop = self._shop
        trap = draw >> 59
        if trap == 0 and shop.missing:
            return Page(Kind.MISSING, (draw >> 16) % shop.missing)
        if trap == 1 and shop.private:
            return Page(Kind.PRIVATE, (draw >> 16) % shop.private)
        number = (draw >> 16) % shop.products
        moved = shop.is_moved(number) and shop.is_moved_for_good(number)
        return Page(Kind.REDIRECT if moved else Kind.PRODUCT, number)

    def _spell(self, targets: Iterable[Page], draws: Iterator[int]) -> list[Link]:
        spelled, spellings = self._spelled, self._spellings
        return [
            Link(target, spellings[(draw >> 48) % len(spellings)] if draw >> 40 & 0xFF < spelled else CANONICAL)
            for target, draw in zip(targets, draws, strict=False)  # draws never end
        ]


def _draws(state: int) -> Iterator[int]:
    """Draw 64-bit numbers without end, the high bits good (Knuth's MMIX generator)."""
    while True:
        state = state * 6364136223846793005 + 1442695040888963407 & _MASK
        yield state


def _children(parent: int, count: int) -> list[int]:
    """Give the children of a node in a binary tree of `count` nodes laid out as a heap."""
    return [child for child in (2 * parent + 1, 2 * parent + 2) if child < count]
