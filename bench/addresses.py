"""Web addresses to measure seeds on: those of a file, or made up; and any number recombined from their parts."""

import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

_ONSETS = ("b", "c", "ch", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "r", "s", "sh", "st", "t", "tr", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_ENDS = ("", "", "", "l", "n", "r", "s", "t", "ck", "nd", "ng")
_TOP_DOMAINS = ("com", "com", "com", "org", "net", "edu", "co.uk", "de", "gov", "fr")
_EXTENSIONS = ("", "", "/", "/", ".html", ".html", ".htm", ".php", ".pdf", ".aspx")


def read(path: Path) -> list[str]:
    """Return the addresses of a file, one a line, perhaps gzipped."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [line.strip() for line in text.splitlines() if line.strip()]


def made_up(number: int, seed: int = 1) -> list[str]:
    """Return addresses as a crawl collects them: neighbours often share a site, and there are half as many sites.

    The same ones for the same *seed*; their length is that of real ones, 45 characters on average.
    """
    draw = random.Random(seed)
    words = ["".join(draw.choice(part) for _ in range(2) for part in (_ONSETS, _VOWELS, _ENDS)) for _ in range(4000)]
    found: list[str] = []
    while len(found) < number:
        host = f"www.{draw.choice(words)}{draw.choice(words)[: draw.randrange(8)]}.{draw.choice(_TOP_DOMAINS)}"
        folder = "/".join(draw.choices(words, k=draw.randrange(3)))
        for _ in range(min(draw.choice((1, 1, 1, 2, 5)), number - len(found))):
            page = "-".join(draw.choices(words, k=draw.randrange(3))) + draw.choice(("", "", str(draw.randrange(5000))))
            found.append(f"https://{host}/{folder}{'/' * bool(folder)}{page}{draw.choice(_EXTENSIONS) if page else ''}")
    return found


def recombined(addresses: Sequence[str], number: int, seed: int = 1) -> Iterator[str]:
    """Give *number* addresses: host and folder in the order of *addresses*, again and again, and another one's page."""
    draw = random.Random(seed)
    split = [address.rpartition("/") for address in addresses if address.count("/") > 2]
    for n in range(number):
        yield f"{split[n % len(split)][0]}/{draw.choice(split)[2]}"


def shuffled(addresses: Sequence[str], seed: int = 1) -> list[str]:
    """Return the same addresses in another order, the same one for the same *seed*."""
    return random.Random(seed).sample(addresses, len(addresses))
