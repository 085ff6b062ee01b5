"""Everything that lives in Redis."""
