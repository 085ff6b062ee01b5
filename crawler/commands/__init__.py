"""Commands beside Scrapy's own: `scrapy seed`, `frontier`, `reparse`, `export`, `archive`."""
