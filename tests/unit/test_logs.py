"""Log lines: one JSON object each, or text, and what they say of the context."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from crawler import logs
from crawler.logs import JsonFormatter, TextFormatter, name_worker


class Shop(Spider):
    name = "shop"


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    logs._workers.clear()
    yield
    logs._workers.clear()


def record(message: str, *args: Any, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("some.part").makeRecord(
        "some.part", logging.WARNING, __file__, 1, message, args, None, extra=extra
    )
    made.created = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC).timestamp()
    return made


def fields_of(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_an_object() -> None:
    assert fields_of(record("%d of\n%s", 2, "a “few”")) == {
        "time": "2026-01-02T03:04:05.678+00:00",
        "level": "WARNING",
        "logger": "some.part",
        "message": "2 of\na “few”",
    }


def test_an_exception_is_one_field() -> None:
    made = record("It failed")
    try:
        int("a\nfault")
    except ValueError:
        made.exc_info = sys.exc_info()
    found = fields_of(made)
    assert found["message"] == "It failed"
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("'a\\nfault'")


def test_half_a_character_does_no_harm() -> None:
    line = JsonFormatter().format(record("http://a/%s", "\udc80\ud83d"))
    line.encode()
    assert json.loads(line)["message"].startswith("http://a/")


def test_what_is_no_json_is_written_as_text() -> None:
    assert fields_of(record("x", fields={"when": datetime(2026, 1, 1, tzinfo=UTC)}))["when"].startswith("2026-01-01")


def test_the_only_crawler_is_named_and_its_worker() -> None:
    crawler = Crawler(Shop)
    name_worker(crawler, "host:1:ab")
    found = fields_of(record("x"))
    assert (found["spider"], found["worker"]) == ("shop", "host:1:ab")


def test_of_two_crawlers_only_the_one_that_a_line_names_is_told() -> None:
    one, other = Crawler(Shop), Crawler(Shop)
    name_worker(one, "one")
    name_worker(other, "other")
    assert "worker" not in fields_of(record("x"))
    assert fields_of(record("x", crawler=other))["worker"] == "other"
    spider = Shop()
    spider.crawler = one
    assert fields_of(record("x", spider=spider))["worker"] == "one"


@pytest.mark.parametrize(
    ("message", "args"),
    [
        ("%s", Request("http://a/1")),
        ("%(status)s %(request)s", {"request": Request("http://a/1"), "status": 200}),
        ("%(src)s", {"src": Response("http://a/2", request=Request("http://a/1"))}),
    ],
    ids=["request", "by name", "response"],
)
def test_a_line_about_a_request_tells_its_url(message: str, args: Any) -> None:
    assert fields_of(record(message, args))["url"] == "http://a/1"


def test_a_response_without_a_request_does_no_harm() -> None:
    assert "url" not in fields_of(record("%s", Response("http://a/")))


def test_text_has_the_context_in_its_first_line() -> None:
    formatter = TextFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    name_worker(crawler := Crawler(Shop), "host:1:ab")
    assert formatter.format(record("one\ntwo")) == "WARNING: one [spider=shop worker=host:1:ab]\ntwo"
    assert formatter.format(record("%s", Request("http://a/"), details="table")) == (
        "WARNING: <GET http://a/> [spider=shop worker=host:1:ab]\ntable"
    )
    del crawler


def test_text_without_a_context_is_left_as_it_is() -> None:
    assert TextFormatter(None).format(record("one")) == "one"
