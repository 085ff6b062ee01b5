"""A generated shop to crawl: any number of pages, the traps of real sites, and the exact answer to compare with.

Every page is computed from its number when it is asked for, and equal settings give the same bytes everywhere, so a
shop of ten products and one of ten million cost the same to serve. And because the generator knows its own rules, it
can say which pages a correct crawl must have stored: not about how many, but which.

What a crawler meets
--------------------

* Products in categories with paged listings, cross links between all of them, `links_per_page` links on every page, and
  several host names that link to each other.
* The same page under several spellings: another order of the query, `%20` for `+`, a fragment, escapes in lower case or
  where none is needed, the host name in upper case, and `:80` where clients see the site on port 80.
* Moved products: linked through a redirect (301 or 302) on another host; those of the 301 in no other way.
* Links to missing pages (404), pages that fail with 500 the first time they are asked for, pages that come late.
* Pages under `/private/`, which are linked but disallowed by robots.txt.
* On request: Crawl-delay; a host that refuses its first requests with 429 or 503 and Retry-After; ETags and 304.

Product pages say their sku, title, price, currency and availability as schema.org microdata and as JSON-LD. Language,
title, description and headings differ from page to page (English, German, French, Spanish).

From the command line
---------------------

::

    python -m bench.site --port 8000 --products 5000                  # serve, until Ctrl-C or SIGTERM
    python -m bench.site --port 8000 --products 5000 --list           # the pages that a crawl must store
    python -m bench.site --port 8000 --products 5000 --list-products  # the products, as JSON lines
    python -m bench.site --help

It listens on loopback alone unless `--bind` says otherwise. In a container that others know by two names, say
`--host-names shop,outlet --bind 0.0.0.0 --port 80`; behind a port mapping, `--public-port` is what clients see.

Control endpoints, on every host name; no page links to them, and they are not counted:

=============  ===============================================================================
`/_expected`   canonical addresses of the pages that a crawl must store, one a line
`/_products`   products that a crawl must store, one JSON object a line
`/_stats`      requests by host, kind of page and status, and how many were open at once (JSON)
`/_log`        the newest `--log-size` requests: time, host, target, status (JSON lines)
`/_reset`      forget what was asked: pages fail once again, counts and log are empty
=============  ===============================================================================

From Python
-----------

::

    with SiteProcess(SiteConfig(port=0, products=300)) as site:      # a process of its own
        crawl(site.config.start_url)
        assert {canonical_url(url) for url in stored} == expected_pages(site.config)
        print(site.stats()["by_status"])

    async with SiteServer(SiteConfig(port=0)) as server:             # inside the running event loop
        ...
"""

from bench.site.addresses import canonical_url
from bench.site.config import SPELLINGS, SiteConfig
from bench.site.expected import (
    expected_pages,
    expected_products,
    iterate_pages,
    iterate_products,
    page_count,
)
from bench.site.process import SiteProcess
from bench.site.server import SiteServer
from bench.site.shop import Product

__all__ = [
    "SPELLINGS",
    "Product",
    "SiteConfig",
    "SiteProcess",
    "SiteServer",
    "canonical_url",
    "expected_pages",
    "expected_products",
    "iterate_pages",
    "iterate_products",
    "page_count",
]
