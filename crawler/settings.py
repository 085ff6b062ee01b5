"""What Scrapy reads: a worker of this project, its values from the environment (docs/settings.md).

A spider's `custom_settings` and `-s NAME=VALUE` override what is here, as in any Scrapy project.
"""

import sys

from crawler.config import Config, ScrapySettings
from crawler.errors import ConfigError

try:
    Config.from_environ()  # a wrong value is refused before anything starts
    _scrapy = ScrapySettings.from_environ()
except ConfigError as error:
    sys.exit(f"seedbed: {error}")

BOT_NAME = "seedbed"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
COMMANDS_MODULE = "crawler.commands"

# The parts that make a spider distributed and its pages durable; any project can name them.
SCHEDULER = "crawler.scheduler.Scheduler"
EXTENSIONS = {
    "crawler.storage.Storage": 0,
    "crawler.metrics.Metrics": 0,
    "crawler.heartbeat.Heartbeat": 0,
    "crawler.summary.Summary": 0,
}
ADDONS = {"crawler.logs.Logs": 0}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "crawler.robots.SharedRobotsTxtMiddleware": 100,
    # Before any other asks the host for anything.
    "crawler.private_hosts.PrivateHostsMiddleware": 10,
    # Between cookies and redirects.
    "crawler.storage.ConditionalRequests": 650,
}
TWISTED_DNS_RESOLVER = "crawler.private_hosts.GuardedResolver"
SPIDER_MIDDLEWARES = {"crawler.storage.RawPages": 1000, "crawler.logs.AboutPage": 0}
REQUEST_FINGERPRINTER_CLASS = "crawler.fingerprints.RequestFingerprinter"
# What was seen is the frontier's business.
DUPEFILTER_CLASS = "scrapy.dupefilters.BaseDupeFilter"
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

CONCURRENT_REQUESTS = _scrapy.concurrent_requests
CONCURRENT_REQUESTS_PER_DOMAIN = _scrapy.concurrent_requests_per_domain
DOWNLOAD_DELAY = _scrapy.download_delay
# The delay is kept exactly, for all workers together; chance would only add to it.
DOWNLOAD_DELAY_JITTER = 0
DEPTH_LIMIT = _scrapy.depth_limit
ROBOTSTXT_OBEY = _scrapy.robotstxt_obey
USER_AGENT = _scrapy.user_agent
LOG_LEVEL = _scrapy.log_level
# A page's address would ride along with each of its links: 40 bytes and more a queued seed.
REFERRER_POLICY = "no-referrer"
# Nobody talks to a worker but through Redis.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
