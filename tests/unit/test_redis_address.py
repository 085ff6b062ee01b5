"""REDIS_URL: what each kind of address means, and what is refused, in words and without a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawler.config import Config
from crawler.errors import ConfigError
from crawler.frontier.address import RedisAddress


def _address(url: str, **settings: str) -> RedisAddress:
    return RedisAddress.of(Config.from_environ({"REDIS_URL": url, **settings}))


@pytest.mark.parametrize(
    ("url", "shown", "options"),
    [
        ("redis://", "localhost:6379", {"db": 0}),
        ("redis://h", "h:6379", {"db": 0}),
        ("redis://h:1/2", "h:1", {"db": 2}),
        ("redis://[::1]:1/", "::1:1", {"db": 0}),
        ("rediss://h", "h:6379", {"db": 0}),
        ("redis://u:p%40ss@h", "h:6379", {"db": 0, "username": "u", "password": "p@ss"}),
        ("redis://:p@h?socket_timeout=2.5", "h:6379", {"db": 0, "password": "p", "socket_timeout": 2.5}),
        ("rediss://h?ssl_check_hostname=false", "h:6379", {"db": 0, "ssl_check_hostname": False}),
        ("unix:///run/redis%20a.sock", "/run/redis a.sock", {"db": 0}),
        ("unix://u:p@/run/r.sock?db=3", "/run/r.sock", {"db": 3, "username": "u", "password": "p"}),
        ("redis+sentinel://a,b:1/crawl", "crawl (known to the Sentinels a:26379, b:1)", {"db": 0}),
        ("redis+sentinel://u:p@a/my%20crawl/4", "my crawl (known to the Sentinels a:26379)",
         {"db": 4, "username": "u", "password": "p"}),
        ("redis+cluster://:p@a:1,b", "the cluster a:1, b:6379", {"db": 0, "password": "p"}),
        ("rediss+cluster://a/0", "the cluster a:6379", {"db": 0}),
    ],
)  # fmt: skip
def test_an_address_is_read(url: str, shown: str, options: dict[str, Any]) -> None:
    address = _address(url)
    assert str(address) == shown
    assert address.options == options
    assert address.tls == url.startswith("rediss")
    assert address.is_cluster == ("cluster" in url)


def test_the_account_comes_from_the_settings_unless_the_address_names_one() -> None:
    settings = {"REDIS_USERNAME": "worker", "REDIS_PASSWORD": "secret"}
    assert _address("redis://h", **settings).options == {"db": 0, "username": "worker", "password": "secret"}
    assert _address("redis://u:p@h", **settings).options == {"db": 0, "username": "u", "password": "p"}


def test_sentinels_have_an_account_of_their_own_and_the_same_tls(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.touch()
    url = f"rediss+sentinel://u:p@a/crawl?ssl_ca_certs={authority}&socket_timeout=5"
    settings = {"REDIS_SENTINEL_USERNAME": "asker", "REDIS_SENTINEL_PASSWORD": "open"}
    address = _address(url, **settings)
    assert address.sentinel_options == {"username": "asker", "password": "open", "ssl_ca_certs": str(authority)}
    assert address.options["username"] == "u"
    assert _address("redis+sentinel://u:p@a/crawl").sentinel_options == {}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h?decode_responses=true", "decode_responses is none of its options"),  # case S15
        ("redis://h?encoding=latin-1", "encoding is none of its options; they are db, "),  # case R4
        ("redis://h?decode_responses=", "decode_responses is none"),
        ("rediss://h?ssl_ca_certs=/no/such/file", "ssl_ca_certs=/no/such/file: there is no such file"),
        ("redis://h?socket_timeout=soon", "Invalid value for 'socket_timeout'"),
        ("redis://h:port", "Port could not be cast"),
        ("redis://h/crawl", "/crawl is no database: a number is wanted"),
        ("redis://a,b", r"redis\+sentinel://.*redis\+cluster://"),
        ("redis+sentinel://a", "the name of the master is wanted"),
        ("redis+sentinel://a/", "the name of the master is wanted"),
        ("redis+sentinel://a/crawl/x", "/x is no database"),
        ("redis+cluster://a/1", "a cluster has only database 0"),
        ("unix://", "the socket's path is wanted"),
    ],
)
def test_what_is_no_address_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"^REDIS_URL: .*{words}"):
        _address(url)


def test_no_password_is_ever_shown() -> None:
    address = _address("redis+sentinel://u:secret@a/crawl", REDIS_SENTINEL_PASSWORD="secret")
    assert "secret" not in f"{address} {address!r}"
