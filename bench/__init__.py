"""Measure the product: the sample site that it crawls and the load tests that run on it."""
