"""The sample site speaks HTTP as crawlers need it, misbehaves as it was told to, and says what it was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.site import SiteConfig, SiteServer, expected_pages, expected_products
from bench.site.protocol import MAX_HEAD_BYTES

HOSTS = ("shop.test", "outlet.test")
# No trap unless a test asks for it.
PLAIN = SiteConfig(port=0, products=60, categories=3, host_names=HOSTS, failing_share=0, slow_share=0, moved_share=0)

Start = Callable[[SiteConfig], Awaitable[SiteServer]]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def lines(self) -> list[str]:
        return self.body.decode().splitlines()


class Client:
    """A connection on which a test writes its own requests."""

    def __init__(self, server: SiteServer) -> None:
        self._port = server.config.port

    async def __aenter__(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    def ask(self, target: str, *headers: str, host: str = HOSTS[0], method: str = "GET") -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    async def answer(self, *, body: bool = True) -> Answer:
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-1])}
            content = await self.reader.readexactly(int(headers.get("content-length", 0))) if body else b""
        return Answer(int(head[0].split()[1]), headers, content)

    async def get(self, target: str, *headers: str, host: str = HOSTS[0]) -> Answer:
        self.ask(target, *headers, host=host)
        return await self.answer()

    async def is_closed(self) -> bool:
        async with asyncio.timeout(30):
            return await self.reader.read() == b""


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start sites that end with the test."""
    servers: list[SiteServer] = []

    async def start_one(config: SiteConfig) -> SiteServer:
        server = await SiteServer(config).__aenter__()
        servers.append(server)
        return server

    yield start_one
    for server in servers:
        await server.__aexit__(None, None, None)


def targets(server: SiteServer, host: str, count: int) -> list[str]:
    """Give the targets of some product pages of a host."""
    urls = [urlsplit(product.url) for product in expected_products(server.config).values()]
    return [f"{url.path}?{url.query}" for url in urls if url.hostname == host][:count]


async def test_pipelined_requests_are_answered_in_order(start: Start) -> None:
    server = await start(PLAIN)
    async with Client(server) as client:
        wanted = targets(server, HOSTS[0], 20)
        for target in wanted:
            client.ask(target)
        pipelined = [await client.answer() for _ in wanted]
        single = [await client.get(target) for target in wanted]
    assert pipelined == single
    assert {answer.status for answer in pipelined} == {200}
    assert len({answer.body for answer in pipelined}) == len(wanted)


async def test_a_request_may_arrive_byte_by_byte(start: Start) -> None:
    async with Client(await start(PLAIN)) as client:
        for byte in b"GET / HTTP/1.1\r\nhOST:  Shop.Test:80 \r\n\r\n":
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        assert (await client.answer()).status == 200


async def test_a_reader_that_lags_gets_everything(start: Start) -> None:
    server = await start(replace(PLAIN, page_bytes=100_000))
    async with Client(server) as client:
        for _ in range(300):
            client.ask("/")
        answers = [await client.answer() for _ in range(300)]
    assert {len(answer.body) for answer in answers} == {100_000}


async def test_head_is_get_without_the_body(start: Start) -> None:
    async with Client(await start(PLAIN)) as client:
        full = await client.get("/")
        client.ask("/", method="HEAD")
        bare = await client.answer(body=False)
        assert (bare.status, bare.headers) == (full.status, full.headers)
        assert (await client.get("/")) == full


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx", 405),
        ("GET / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\n\r\nx", 400),
        ("GET / HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (f"GET /{'x' * MAX_HEAD_BYTES} HTTP/1.1\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", 200),
        ("GET / HTTP/1.0\r\nHost: shop.test\r\n\r\n", 200),
    ],
)
async def test_the_connection_ends_after_what_is_refused_or_asks_for_it(
    start: Start, request_text: str, status: int
) -> None:
    async with Client(await start(PLAIN)) as client:
        client.writer.write(request_text.encode())
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await client.is_closed()


async def test_hosts_are_told_apart_by_name(start: Start) -> None:
    server = await start(PLAIN)
    async with Client(server) as client:
        first, second = await client.get("/"), await client.get("/", host=HOSTS[1])
        assert first.body != second.body
        assert await client.get("/", host="SHOP.test:8080") == first
        assert await client.get("http://outlet.test:80/", host=HOSTS[0]) == second
        [target] = targets(server, HOSTS[1], 1)
        assert (await client.get(target)).status == 404
        unknown = await client.get("/", host="elsewhere.test")
        assert unknown.status == 421
        assert b"'elsewhere.test'" in unknown.body
        assert b"shop.test, outlet.test" in unknown.body


async def test_pages_fail_once_until_the_site_is_reset(start: Start) -> None:
    server = await start(replace(PLAIN, failing_share=1))
    async with Client(server) as client:
        wanted = targets(server, HOSTS[0], 5)
        for _ in range(2):
            assert [(await client.get(target)).status for target in wanted] == [500] * 5
            assert [(await client.get(target)).status for target in wanted] == [200] * 5
            assert (await client.get("/")).status == 200
            assert (await client.get("/_reset")).status == 200


async def test_a_late_page_holds_up_no_other_connection(start: Start) -> None:
    server = await start(replace(PLAIN, slow_share=1, slow_s=3600))
    async with Client(server) as waiting, Client(server) as other:
        waiting.ask(targets(server, HOSTS[0], 1)[0])
        assert (await other.get("/")).status == 200


async def test_what_was_asked_behind_a_late_page_is_answered_after_it(start: Start) -> None:
    server = await start(replace(PLAIN, slow_share=1, slow_s=0.02))
    async with Client(server) as client:
        home = await client.get("/")
        late = await client.get(targets(server, HOSTS[0], 1)[0])
        client.ask(targets(server, HOSTS[0], 1)[0])
        for _ in range(1000):
            client.ask("/", f"X-Padding: {'x' * 1000}")  # in all more than the server reads ahead
        assert [await client.answer() for _ in range(1001)] == [late, *[home] * 1000]


async def test_concurrency_is_counted_by_host(start: Start) -> None:
    # Late enough that no answer is due: the clients leave while all of them wait.
    server = await start(replace(PLAIN, slow_share=1, slow_s=3600, bind=("127.0.0.1",)))
    clients = [Client(server) for _ in range(5)]
    for number, client in enumerate(clients):
        host = HOSTS[number % 2]
        await client.__aenter__()
        client.ask(targets(server, host, 1)[0], host=host)
    async with Client(server) as observer:

        async def stats() -> dict[str, Any]:
            counted: dict[str, Any] = json.loads((await observer.get("/_stats")).body)
            return counted

        async with asyncio.timeout(30):
            while (await stats())["max_concurrent"] < 5:
                pass
        assert (await stats())["max_concurrent_by_host"] == {HOSTS[0]: 3, HOSTS[1]: 2}
        for client in clients:
            await client.__aexit__()
        async with asyncio.timeout(30):
            while (await stats())["max_concurrent"]:
                await observer.get("/_reset")
        assert (await stats())["max_concurrent_by_host"] == {}


async def test_it_does_not_read_on_while_a_client_waits(start: Start) -> None:
    server = await start(replace(PLAIN, slow_share=1, slow_s=3600))
    async with Client(server) as hasty, Client(server) as other:
        hasty.ask(targets(server, HOSTS[0], 1)[0])
        hasty.writer.write(b"x" * (32 << 20))  # more than the kernel's buffers hold
        for _ in range(400):
            await other.get("/robots.txt")
        assert hasty.writer.transport.get_write_buffer_size() > 0
        hasty.writer.transport.abort()


async def test_whoever_leaves_before_a_late_answer_is_counted_out_once(start: Start) -> None:
    server = await start(replace(PLAIN, slow_share=1, slow_s=0.02))
    [target] = targets(server, HOSTS[0], 1)
    async with Client(server) as staying:
        async with Client(server) as leaving:
            leaving.ask(target)
            async with asyncio.timeout(30):
                while not json.loads((await staying.get("/_stats")).body)["requests"]:
                    pass
        await staying.get(target)  # thus the other's answer would have been due
        await staying.get("/_reset")
        await staying.get("/")
        assert json.loads((await staying.get("/_stats")).body)["max_concurrent"] == 1


async def test_a_stop_waits_for_nobody() -> None:
    async with SiteServer(replace(PLAIN, slow_share=1, slow_s=3600)) as server:
        async with Client(server) as client:
            assert (await client.get("/")).status == 200
        waiting = await Client(server).__aenter__()
        waiting.ask(targets(server, HOSTS[0], 1)[0])
    with contextlib.suppress(ConnectionResetError):
        assert await waiting.is_closed()
    waiting.writer.close()


async def test_requests_are_counted_and_logged_within_bounds(start: Start) -> None:
    server = await start(replace(PLAIN, log_size=3))
    async with Client(server) as client:
        [target] = targets(server, HOSTS[1], 1)
        for asked in ("/robots.txt", "/", "/nowhere"):
            await client.get(asked)
        await client.get(target, host=HOSTS[1])
        stats = json.loads((await client.get("/_stats")).body)
        log = [json.loads(line) for line in (await client.get("/_log")).lines()]
    assert stats["requests"] == 4
    assert stats["by_host"] == {HOSTS[0]: 3, HOSTS[1]: 1}
    assert stats["by_kind"] == {"robots": 1, "home": 1, "missing": 1, "product": 1}
    assert stats["by_status"] == {"200": 3, "404": 1}
    assert [(entry["host"], entry["target"], entry["status"]) for entry in log] == [
        (HOSTS[0], "/", 200),
        (HOSTS[0], "/nowhere", 404),
        (HOSTS[1], target, 200),
    ]
    assert [entry["monotonic_s"] for entry in log] == sorted(entry["monotonic_s"] for entry in log)


async def test_the_control_endpoints_give_what_python_gives(start: Start) -> None:
    server = await start(PLAIN)
    async with Client(server) as client:
        pages = (await client.get("/_expected", host="any.name")).lines()
        products = [json.loads(line) for line in (await client.get("/_products")).lines()]
    assert len(pages) == len(set(pages))
    assert set(pages) == expected_pages(server.config)
    known = {sku: {**product._asdict(), "price": str(product.price)} for sku, product in
             expected_products(server.config).items()}  # fmt: skip
    assert {product["sku"]: product for product in products} == known


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttled_host_refuses_its_first_requests(start: Start, status: int) -> None:
    config = replace(PLAIN, throttled_host=HOSTS[1], throttled_requests=2, throttle_status=status, retry_after_s=7)
    async with Client(await start(config)) as client:
        assert (await client.get("/robots.txt", host=HOSTS[1])).status == 200
        answers = [await client.get("/", host=HOSTS[1]) for _ in range(3)]
        assert [answer.status for answer in answers] == [status, status, 200]
        assert [answer.headers.get("retry-after") for answer in answers] == ["7", "7", None]
        assert (await client.get("/")).status == 200


async def test_robots_txt_names_the_delay(start: Start) -> None:
    async with Client(await start(replace(PLAIN, crawl_delay_s=1.5))) as client:
        assert (await client.get("/robots.txt")).lines() == ["User-agent: *", "Disallow: /private/", "Crawl-delay: 1.5"]


async def test_unchanged_pages_are_answered_304_if_switched_on(start: Start) -> None:
    async with Client(await start(replace(PLAIN, etags=True))) as client:
        page = await client.get("/")
        etag, date = page.headers["etag"], page.headers["last-modified"]
        assert etag != (await client.get("/", host=HOSTS[1])).headers["etag"]
        for condition in (f"If-None-Match: {etag}", f'If-None-Match: "x", {etag}', f"If-Modified-Since: {date}"):
            unchanged = await client.get("/", condition)
            assert (unchanged.status, unchanged.headers["etag"], unchanged.body) == (304, etag, b"")
        other = await client.get("/", 'If-None-Match: "x"', f"If-Modified-Since: {date}")
        assert other == page
    async with Client(await start(PLAIN)) as client:
        page = await client.get("/", f"If-None-Match: {etag}")
        assert page.status == 200
        assert "etag" not in page.headers


async def test_a_port_in_use_is_named(start: Start) -> None:
    server = await start(PLAIN)
    with pytest.raises(OSError, match=f"can't listen on 127.0.0.1, port {server.config.port}: .*choose another --port"):
        await start(server.config)
