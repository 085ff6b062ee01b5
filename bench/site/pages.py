"""The HTML of the pages: plain, valid and semantic, as a well-kept shop would serve it."""

from bench.site.addresses import Addresses
from bench.site.links import Link, Links
from bench.site.shop import Kind, Page, Product, Shop, mix
from bench.site.words import CATEGORY_NAMES, LANGUAGES, Language, filler

_HEAD = """\
<!DOCTYPE html>
<html lang="{language.code}">
<head>
<meta charset="utf-8">
<title>{title} | {language.shop}</title>
<meta name="description" content="{description}">
</head>
<body>
<header>
<nav><ul>
{navigation}
</ul></nav>
</header>
<main>
{main}
</main>
<footer>
<p>"""

_FOOT = b"</p>\n</footer>\n</body>\n</html>\n"

# The same facts twice, in both of the ways that shops use: microdata and JSON-LD.
_PRODUCT = """\
<article itemscope itemtype="https://schema.org/Product">
<h1 itemprop="name">{product.title}</h1>
<p>SKU <span itemprop="sku">{product.sku}</span></p>
<p itemprop="description">{description}</p>
<p itemprop="offers" itemscope itemtype="https://schema.org/Offer">
<meta itemprop="price" content="{product.price}">
<meta itemprop="priceCurrency" content="{product.currency}">
<link itemprop="availability" href="https://schema.org/{product.availability}">
{product.currency} {product.price}
</p>
</article>
<script type="application/ld+json">
{{"@context": "https://schema.org", "@type": "Product", "name": "{product.title}", "sku": "{product.sku}", \
"offers": {{"@type": "Offer", "price": "{product.price}", "priceCurrency": "{product.currency}", \
"availability": "https://schema.org/{product.availability}"}}}}
</script>"""


class Pages:
    """Write the pages of one site. Each takes about 80 µs, and nothing is kept."""

    def __init__(self, shop: Shop, addresses: Addresses) -> None:
        self._shop = shop
        self._addresses = addresses
        self._links = Links(shop, addresses)
        self._page_bytes = shop.config.page_bytes
        self._filler = filler(self._page_bytes) if self._page_bytes else b""

    def html(self, page: Page) -> bytes:
        """Write a page, padded to `page_bytes` if it would be smaller."""
        links = self._links.of(page)
        host = self._shop.host_of(page)
        language, title, description = self._about(page)
        if page.kind is Kind.PRODUCT:
            main = _PRODUCT.format(product=self.product(page), description=description)
        else:
            main = f"<h1>{title}</h1>\n<p>{description}</p>"
        if links.listing:
            main += f"\n<ul>\n{self._anchors(links.listing, host)}\n</ul>"
        if links.cross:
            anchors = self._anchors(links.cross, host)
            main += f"\n<section>\n<h2>{language.related}</h2>\n<ul>\n{anchors}\n</ul>\n</section>"
        head = _HEAD.format(
            language=language,
            title=title,
            description=description,
            navigation=self._anchors(links.navigation, host),
            main=main,
        ).encode()
        return head + self._padding(page, len(head) + len(_FOOT)) + _FOOT

    def product(self, page: Page) -> Product:
        """Describe the product that a page shows."""
        return self._shop.product(page.number, self._addresses.url(page))

    def _about(self, page: Page) -> tuple[Language, str, str]:
        """Give a page's language, title and description."""
        kind, number, part = page
        if kind is Kind.PRODUCT:
            language, title = self._shop.name_of(number)[:2]
            return language, f"{title} {number}", language.description.format(title=title, number=number)
        if kind is Kind.CATEGORY:
            language, name = CATEGORY_NAMES[number % len(CATEGORY_NAMES)][:2]
            title = f"{name} {number}"
            parts = self._shop.parts(number)
            return language, f"{title}, {part}/{parts}", language.listing.format(title=title, part=part, parts=parts)
        language = LANGUAGES[number % len(LANGUAGES)]
        if kind is Kind.PRIVATE:
            return language, f"Private {number}", "Nothing that a polite crawler should know."
        return language, self._shop.config.host_names[number], f"{language.shop}: {self._shop.products} products."

    def _anchors(self, links: list[Link], host: int) -> str:
        reference, label = self._addresses.reference, self._label
        # Of all that HTML wants escaped, an address holds nothing but the ampersand.
        return "\n".join(
            [
                f'<li><a href="{reference(target, host, spelling).replace("&", "&amp;")}">{label(target)}</a></li>'
                for target, spelling in links
            ]
        )

    def _label(self, target: Page) -> str:
        kind, number, part = target
        if kind is Kind.PRODUCT or kind is Kind.REDIRECT:
            return f"{self._shop.name_of(number).title} {number}"
        if kind is Kind.CATEGORY:
            return f"{CATEGORY_NAMES[number % len(CATEGORY_NAMES)].title} {number}, {part}"
        return f"{kind.name.capitalize()} {number}"

    def _padding(self, page: Page, used_bytes: int) -> bytes:
        wanted = self._page_bytes - used_bytes
        if wanted <= 0:
            return b""
        start = mix(*page) % (len(self._filler) - wanted)
        return self._filler[start : start + wanted]
