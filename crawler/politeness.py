"""What a server asks for when it answers 429 or 503 (RFC 9110, section 10.2.3: Retry-After)."""

import time
from email.utils import parsedate_to_datetime

from scrapy.http import Response

#: A server that asks for more is not believed, ms.
LONGEST_MS = 3_600_000


def retry_after_ms(response: Response) -> int:
    """Return how long *response* asks to wait, in ms; 0: it does not, or in no form that the standard knows."""
    if response.status not in {429, 503}:
        return 0
    value = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
    if value.isascii() and value.isdigit():
        return min(int(value) * 1000, LONGEST_MS)
    try:
        wait_s = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0
    return min(max(int(wait_s * 1000), 0), LONGEST_MS)
