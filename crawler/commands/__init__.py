"""Commands beside Scrapy's own: `scrapy seed`, `scrapy frontier`, `scrapy export`, `scrapy archive`."""
