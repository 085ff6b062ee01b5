"""Show Prometheus what all workers share: frontier, dedup filters, memory, workers, MongoDB."""
