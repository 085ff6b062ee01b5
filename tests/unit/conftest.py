"""Let hypothesis draw the same examples in every run, and take its time on a busy machine."""

from hypothesis import settings

settings.register_profile("tests", derandomize=True, deadline=None)
settings.load_profile("tests")
