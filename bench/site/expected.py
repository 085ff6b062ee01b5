"""What a correct crawl of a site must have stored: computed from the site's rules, without fetching anything."""

import json
from collections.abc import Iterator

from bench.site.addresses import Addresses
from bench.site.config import SiteConfig
from bench.site.shop import Kind, Page, Product, Shop


def iterate_pages(config: SiteConfig) -> Iterator[str]:
    """Go through the canonical addresses of `expected_pages`, each once, in constant memory."""
    shop = Shop(config)
    addresses = Addresses(shop)
    return (addresses.url(page) for page in shop.pages())


def iterate_products(config: SiteConfig) -> Iterator[Product]:
    """Go through the products of `expected_products`, each once, in constant memory."""
    shop = Shop(config)
    addresses = Addresses(shop)
    return (shop.product(number, addresses.url(Page(Kind.PRODUCT, number))) for number in range(config.products))


def expected_pages(config: SiteConfig) -> set[str]:
    """Give the canonical address of every page that a correct crawl stores.

    These are the final addresses of all pages that answer 200 and can be reached from `config.start_url` by a
    crawler that obeys robots.txt, follows redirects, asks again after a 500, 429 or 503, and knows an address by any
    of its spellings. Compare them with `canonical_url` of what was stored. Costs about 200 bytes a page; raises
    ValueError while the port is not known (see `SiteConfig.origins`).
    """
    return set(iterate_pages(config))


def expected_products(config: SiteConfig) -> dict[str, Product]:
    """Give every product that a correct crawl stores, by its sku."""
    return {product.sku: product for product in iterate_products(config)}


def page_count(config: SiteConfig) -> int:
    """Count `expected_pages`. O(1)."""
    return Shop(config).page_count()


def as_json(product: Product) -> str:
    """Write a product as one line of JSON; the price is a string with two decimals."""
    return json.dumps({**product._asdict(), "price": str(product.price)}, ensure_ascii=False)
