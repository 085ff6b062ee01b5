"""The add-on that makes the spiders of any Scrapy project distributed: `ADDONS = {"crawler.addon.Seedbed": 0}`."""

from scrapy.settings import BaseSettings

#: What is set, unless the project or a spider sets it otherwise.
SETTINGS = {
    "SCHEDULER": "crawler.scheduler.Scheduler",
    "REQUEST_FINGERPRINTER_CLASS": "crawler.fingerprints.RequestFingerprinter",
    "TWISTED_DNS_RESOLVER": "crawler.private_hosts.GuardedResolver",
}
#: What is put beside Scrapy's own parts, under the names of the modules where the classes really are: only so can a
#: project switch one off by naming it, with None.
COMPONENTS: dict[str, dict[str, int | None]] = {
    "EXTENSIONS": {
        "crawler.storage.extension.Storage": 0,
        "crawler.metrics.extension.Metrics": 0,
        "crawler.heartbeat.Heartbeat": 0,
        "crawler.summary.Summary": 0,
    },
    "SPIDER_MIDDLEWARES": {
        "crawler.logs.AboutPage": 0,
        # Next to the spider: a page that another middleware keeps from it is not stored.
        "crawler.storage.middleware.RawPages": 1000,
    },
    "DOWNLOADER_MIDDLEWARES": {
        # Before any other asks the host for anything.
        "crawler.private_hosts.PrivateHostsMiddleware": 10,
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "crawler.robots.SharedRobotsTxtMiddleware": 100,
        # Between cookies and redirects.
        "crawler.storage.conditional.ConditionalRequests": 650,
    },
    # After the project's own, which may drop or change items.
    "ITEM_PIPELINES": {"crawler.items_to_redis.ItemsToRedisIfWanted": 900},
}


class Seedbed:
    """Set what makes a crawl distributed, its pages durable and its workers visible.

    The parts go into Scrapy's `EXTENSIONS_BASE` and the like, so a spider whose `custom_settings` have EXTENSIONS or
    middlewares of its own adds to them; and they are there before a spider's settings are read, so one with ADDONS of
    its own has them, too. What is lost in silence otherwise is the storage of every page.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Set it for all spiders of the project."""
        _put(settings)

    def update_settings(self, settings: BaseSettings) -> None:
        """Set it for one spider: all there is to do where its own settings, or a script's, name the add-on."""
        _put(settings)


def _put(settings: BaseSettings) -> None:
    settings.update(SETTINGS, "addon")
    for name, components in COMPONENTS.items():
        base = f"{name}_BASE"
        settings.set(base, {**settings.getdict(base), **components}, settings.getpriority(base) or "addon")
