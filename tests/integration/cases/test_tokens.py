"""A token that all workers share."""

from __future__ import annotations

import json
from collections.abc import Callable

from redis import Redis

from bench.demo.worker import WorkerProcess
from tests.integration.cases.pages import Arrival, Pages


def test_three_workers_sign_in_once_and_once_again_when_the_token_is_refused(
    pages: Pages, worker: Callable[..., WorkerProcess], ended: Callable[..., None], client: Redis
) -> None:
    def sign_in(page: Arrival) -> None:
        if page.path == "/token":
            token = "old" if pages.paths.count("/token") == 1 else "new"
            pages.texts["/token"] = json.dumps({"access_token": token, "expires_in": 3600})

    pages.hold = sign_in
    client.rpush("token:start_urls", *pages.urls(f"/item{number}" for number in range(150)))
    ended(*(worker("token") for _ in range(3)))
    assert pages.paths.count("/token") == 2
    assert {f"/new/item{number}" for number in range(150)} <= set(pages.paths)
    assert any(path.startswith("/old/") for path in pages.paths)
