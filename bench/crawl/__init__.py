"""One crawl of the sample site in each of the ways that the benchmarks compare, in a process of its own."""
