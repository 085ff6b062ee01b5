"""The spiders that ship: plain Scrapy spiders, which know nothing of the frontier and the storage."""
