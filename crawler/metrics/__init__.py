"""What a worker tells of its own work: its /metrics."""

from crawler.metrics.extension import Metrics

__all__ = ["Metrics"]
