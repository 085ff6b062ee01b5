"""Seedbed: a distributed Scrapy crawl on Redis and MongoDB that loses nothing."""
