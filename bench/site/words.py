"""The words of the shop: names in four languages, and text to fill a page with."""

import random
from collections.abc import Callable
from itertools import chain, product
from typing import NamedTuple
from urllib.parse import quote


class Language(NamedTuple):
    """How one language of the shop names and describes its goods; each has equally many nouns and materials."""

    code: str
    currency: str
    name: str
    nouns: str
    materials: str
    shop: str
    related: str
    description: str
    listing: str


class Name(NamedTuple):
    """A name, and how it is spelled inside an address: canonically, and otherwise."""

    language: Language
    title: str
    slug: str
    other_slug: str


LANGUAGES = (
    Language(
        code="en",
        currency="GBP",
        name="{material} {noun}",
        nouns="kettle lamp chair bowl mirror basket bookshelf clock candle tray vase stool",
        materials="Copper Oak Glass Steel Linen Leather Marble Bamboo",
        shop="The Corner Shop",
        related="You may also like",
        description="{title}: made by hand, made to last. Number {number} of our collection, sent within two days.",
        listing="{title}: everything that we have of it, page {part} of {parts}.",
    ),
    Language(
        code="de",
        currency="EUR",
        name="{noun} aus {material}",
        nouns="Teekessel Lampe Stuhl Schüssel Spiegel Korb Bücherregal Uhr Kerze Tablett Blumenkübel Hocker",
        materials="Kupfer Eiche Glas Stahl Leinen Leder Marmor Bambus",
        shop="Der Eckladen",
        related="Das könnte Ihnen auch gefallen",
        description="{title}: von Hand gefertigt, für lange Zeit. Nummer {number} unserer Sammlung.",
        listing="{title}: alles, was wir davon führen, Seite {part} von {parts}.",
    ),
    Language(
        code="fr",
        currency="EUR",
        name="{noun} en {material}",
        nouns="Bouilloire Lampe Chaise Bol Miroir Panier Étagère Horloge Bougie Plateau Vase Tabouret",
        materials="cuivre chêne verre acier lin cuir marbre bambou",
        shop="La Boutique du coin",
        related="Vous aimerez aussi",
        description="{title} : fabriqué à la main, pour durer. Numéro {number} de notre collection.",
        listing="{title} : tout ce que nous en avons, page {part} sur {parts}.",
    ),
    Language(
        code="es",
        currency="EUR",
        name="{noun} de {material}",
        nouns="Tetera Lámpara Silla Cuenco Espejo Cesta Estantería Reloj Vela Bandeja Jarrón Taburete",
        materials="cobre roble vidrio acero lino cuero mármol bambú",
        shop="La Tienda de la esquina",
        related="También le puede gustar",
        description="{title}: hecho a mano, hecho para durar. Número {number} de nuestra colección.",
        listing="{title}: todo lo que tenemos, página {part} de {parts}.",
    ),
)

_COLOURS = ("black", "dark blue", "green", "off white", "red")
_SIZES = ("l", "m", "s", "xl", "xs", "xxl", "xxs")


def _name(language: Language, title: str) -> Name:
    slug = quote(title.lower().replace(" ", "-"))
    # Lower-case escapes, or an escape where none is needed: both are equivalent by RFC 3986, section 6.2.2.
    other = slug.lower() if "%" in slug else slug[:-1] + f"%{ord(slug[-1]):02X}"
    return Name(language, title, slug, other)


def _interleaved(titles: Callable[[Language], list[str]]) -> tuple[Name, ...]:
    """Name the same things in every language, neighbours in different ones."""
    by_language = [[_name(language, title) for title in titles(language)] for language in LANGUAGES]
    return tuple(chain.from_iterable(zip(*by_language, strict=True)))


def _goods(language: Language) -> list[str]:
    pairs = product(language.nouns.split(), language.materials.split())
    return [language.name.format(noun=noun, material=material) for noun, material in pairs]


PRODUCT_NAMES = _interleaved(_goods)
CATEGORY_NAMES = _interleaved(lambda language: language.nouns.title().split())

#: Queries of products: canonical, and with another order and other spaces.
PRODUCT_QUERIES = tuple(
    (
        f"colour={colour.replace(' ', '+')}&size={size}",
        f"size={size}&colour={colour.replace(' ', '%20')}",
    )
    for size in _SIZES
    for colour in _COLOURS
)


def filler(size_bytes: int) -> bytes:
    """Give that many bytes of ASCII text, or a few more, always the same.

    It compresses about as well as prose does, so that padded pages cost a store what real pages cost it.
    """
    draw = random.Random(0)
    syllables = [consonant + vowel for consonant in "bcdfghlmnprstvz" for vowel in "aeiou"]
    vocabulary = ["".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3, 3, 4)))) for _ in range(3000)]
    zipf = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    words = " ".join(draw.choices(vocabulary, zipf, k=40_000)).encode() + b". "
    return words * (1 + size_bytes // len(words))
