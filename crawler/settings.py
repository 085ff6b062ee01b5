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

# What makes spiders distributed and their pages durable, and log lines tell where they belong; any project can name it.
ADDONS = {"crawler.logs.Logs": 0, "crawler.addon.Seedbed": 0}

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
