"""What keeps a crawl out of the network that it runs in: addresses that are not public are refused, unless allowed.

A page may link to, or redirect to, http://169.254.169.254/ or a name that resolves to 10.0.0.5; a worker in a data
centre would fetch it and store what it got. CRAWL_PRIVATE_HOSTS names the hosts that may be private (`*`: any may).
"""

import logging
from ipaddress import ip_address
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.resolver import CachingThreadedResolver
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError

from crawler.config import Config

logger = logging.getLogger(__name__)


class PrivateHosts:
    """Know which hosts may have private addresses."""

    def __init__(self, setting: str) -> None:
        names = {name.strip().lower().strip("[]") for name in setting.split(",")} - {""}
        self.allow_all = "*" in names
        self._allowed = names

    def refuses(self, host: str, address: str) -> bool:
        """Tell whether *host*, found at *address*, must not be fetched; what is no address is no matter of ours."""
        if self.allow_all or host.lower() in self._allowed:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return not found.is_global or found.is_multicast


class GuardedResolver(CachingThreadedResolver):
    """Scrapy's resolver, which finds no private address; to be set as TWISTED_DNS_RESOLVER."""

    private_hosts: PrivateHosts

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: Any) -> Self:
        """Build the resolver."""
        resolver = super().from_crawler(crawler, reactor)
        resolver.private_hosts = PrivateHosts(Config.from_settings(crawler.settings).crawl_private_hosts)
        return resolver

    def getHostByName(self, name: str, timeout: Any = ()) -> Deferred[str]:  # noqa: N802 - Twisted's name
        """Return the address of *name*; fails with DNSLookupError where it is private."""
        return super().getHostByName(name, timeout).addCallback(self._checked, name)

    def _checked(self, address: str, name: str) -> str:
        if self.private_hosts.refuses(name, address):
            raise DNSLookupError(f"{name} is at {address}, which is private: CRAWL_PRIVATE_HOSTS does not allow it")
        return address


class PrivateHostsMiddleware:
    """Refuse requests whose address is written as a number; names are the resolver's business."""

    def __init__(self, crawler: Crawler, private_hosts: PrivateHosts) -> None:
        self._crawler = crawler
        self._private_hosts = private_hosts

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware; nothing is to be done where all hosts are allowed."""
        private_hosts = PrivateHosts(Config.from_settings(crawler.settings).crawl_private_hosts)
        if private_hosts.allow_all:
            raise NotConfigured
        return cls(crawler, private_hosts)

    def process_request(self, request: Request) -> None:
        """Let the request pass, or raise IgnoreRequest."""
        host = urlparse_cached(request).hostname or ""
        if self._private_hosts.refuses(host, host):
            self._crawler.stats.inc_value("private_hosts/refused")
            logger.warning("Refused %s: its host is private, and CRAWL_PRIVATE_HOSTS does not allow it", request)
            raise IgnoreRequest("private address")
