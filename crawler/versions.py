"""Which versions run here."""

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Return the versions of Seedbed, Scrapy and Python; Seedbed's is "source" where it is run uninstalled."""
    try:
        seedbed = version("seedbed")
    except PackageNotFoundError:
        seedbed = "source"
    return {"version": seedbed, "scrapy": version("scrapy"), "python": platform.python_version()}
