"""Where each page lives, how a link may spell that, and which page an address names."""

import re
from typing import NamedTuple

from w3lib.url import canonicalize_url

from bench.site.shop import Kind, Page, Shop
from bench.site.words import CATEGORY_NAMES, PRODUCT_NAMES, PRODUCT_QUERIES

_ADDRESS = re.compile(r"/(category|product|go|private)/([0-9]{1,9})(?=$|/)")
_PART = re.compile(r"[?&]page=([0-9]{1,9})(?=$|&)")
_KINDS = {"category": Kind.CATEGORY, "product": Kind.PRODUCT, "go": Kind.REDIRECT, "private": Kind.PRIVATE}


class Spelling(NamedTuple):
    """One way to spell an address: which origin, which slug, which query (0: canonical), and the fragment."""

    origin: int = 0
    slug: int = 0
    query: int = 0
    fragment: str = ""


CANONICAL = Spelling()

_SPELLINGS = {
    "query": Spelling(query=1),
    "fragment": Spelling(fragment="#more"),
    "encoding": Spelling(slug=1),
    "host": Spelling(origin=1),
    "port": Spelling(origin=2),
}


def canonical_url(url: str) -> str:
    """Give the one spelling under which the site counts a page.

    That is w3lib's (order of the query, escapes, case of the host, no fragment) without the port that HTTP implies,
    which w3lib leaves in.
    """
    scheme, _, rest = canonicalize_url(url).partition("://")
    netloc, slash, path = rest.partition("/")
    default_port = {"http": ":80", "https": ":443"}.get(scheme, ":")
    return f"{scheme}://{netloc.removesuffix(default_port)}{slash}{path}"


class Addresses:
    """Translate between pages and addresses of one site. Every method is O(1)."""

    def __init__(self, shop: Shop) -> None:
        config = shop.config
        self._shop = shop
        plain = config.origins
        upper = tuple("http://" + origin.removeprefix("http://").upper() for origin in plain)
        # Only where it is the one that HTTP implies can a port be written or left out.
        explicit = tuple(f"{origin}:80" for origin in plain) if (config.public_port or config.port) == 80 else plain
        self._origins = (plain, upper, explicit)
        #: The spellings that links draw from, besides the canonical one.
        self.spellings = tuple(_SPELLINGS[name] for name in config.spellings)

    def url(self, page: Page, spelling: Spelling = CANONICAL) -> str:
        """Give the absolute address of a page."""
        return self.reference(page, -1, spelling)

    def reference(self, page: Page, base_host: int, spelling: Spelling = CANONICAL) -> str:
        """Give the address of a page as a page of `base_host` links to it: without the origin if that is the same."""
        origin, slug, query, fragment = spelling
        kind, number, part = page
        if kind is Kind.PRODUCT:
            name = PRODUCT_NAMES[number % len(PRODUCT_NAMES)]
            queries = PRODUCT_QUERIES[number % len(PRODUCT_QUERIES)]
            target = f"/product/{number}/{name[2 + slug]}?{queries[query]}{fragment}"
        elif kind is Kind.CATEGORY:
            name = CATEGORY_NAMES[number % len(CATEGORY_NAMES)]
            order = f"sort=name&page={part}" if query else f"page={part}&sort=name"
            target = f"/category/{number}/{name[2 + slug]}?{order}{fragment}"
        elif kind is Kind.HOME:
            target = f"/{fragment}"
        else:
            target = f"/{_PLAIN[kind]}/{number}{fragment}"
        host = self._shop.host_of(page)
        return target if host == base_host and not origin else self._origins[origin][host] + target

    def page_at(self, host: int, target: str) -> Page:
        """Find the page that a request target names on a host; one of kind MISSING if there is none.

        Only spellings of a page's own address find it: an address that was cut or garbled does not.
        """
        page = self._candidate(host, target)
        if not self._shop.exists(page) or self._shop.host_of(page) != host:
            return _NO_PAGE
        canonical = self.reference(page, host)
        if target != canonical and canonicalize_url("http://host" + target) != "http://host" + canonical:
            return _NO_PAGE
        return page

    def _candidate(self, host: int, target: str) -> Page:
        if target == "/":
            return Page(Kind.HOME, host)
        address = _ADDRESS.match(target)
        if not address:
            return _NO_PAGE
        kind = _KINDS[address[1]]
        part = _PART.search(target) if kind is Kind.CATEGORY else None
        return Page(kind, int(address[2]), int(part[1]) if part else 0)


_PLAIN = {Kind.REDIRECT: "go", Kind.PRIVATE: "private", Kind.MISSING: "missing"}
_NO_PAGE = Page(Kind.MISSING, 0)
