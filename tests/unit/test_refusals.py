"""Redis's errors in this project's words: what may pass, what is full, what the account may not do."""

from __future__ import annotations

import pytest
from redis._parsers.base import BaseParser

from crawler.errors import FrontierDownError, FrontierError, FrontierFullError
from crawler.frontier.client import translated

_BEFORE_7 = "ERR Error running script (call to f_12ab): @user_script:13: @user_script: 13: -"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (
            "OOM command not allowed when used memory > 'maxmemory'. script: 12ab, on @user_script:13.",
            FrontierFullError,
        ),
        (_BEFORE_7 + "OOM command not allowed when used memory > 'maxmemory'.", FrontierFullError),
        ("READONLY You can't write against a read only replica. script: 12ab, on @user_script:13.", FrontierDownError),
        (_BEFORE_7 + "READONLY You can't write against a read only replica.", FrontierDownError),
        ("LOADING Redis is loading the dataset in memory", FrontierDownError),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", FrontierDownError),
        ("MISCONF Errors writing to the AOF file: No space left on device", FrontierDownError),
        (_BEFORE_7 + "MISCONF Errors writing to the AOF file: No space left on device", FrontierDownError),
        ("NOREPLICAS Not enough good replicas to write.", FrontierDownError),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", FrontierDownError),
        ("CLUSTERDOWN The cluster is down", FrontierDownError),
        ("TRYAGAIN Multiple keys request during rehashing of slot", FrontierDownError),
        ("ERR max number of clients reached", FrontierDownError),
        ("NOPERM User worker has no permissions to run the 'info' command", FrontierError),
        ("WRONGPASS invalid username-password pair or user is disabled.", FrontierError),
        ("DEDUP {BUSY}:seen was made for 'bloom': OOM or BUSY in a name mean nothing", FrontierError),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", FrontierError),
    ],
)
def test_an_error_reply_means_what_it_says_on_every_version(reply: str, kind: type[FrontierError]) -> None:
    with pytest.raises(FrontierError, match="Redis at here") as caught, translated("here"):
        raise BaseParser.parse_error(reply)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "reply",
    [
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'info' command",
        "ERR ACL failure in script: User u has no permissions to run the 'info' command script: 12ab.",
        "ERR The user executing the script can't run this command or subcommand script: 12ab.",
        _BEFORE_7[:-1] + "The user executing the script can't run this command or subcommand",
    ],
)
def test_an_account_that_may_not_is_told_which_settings_to_look_at(reply: str) -> None:
    with (
        pytest.raises(FrontierError, match=r"refuses the account.*REDIS_USERNAME and REDIS_PASSWORD"),
        translated("here"),
    ):
        raise BaseParser.parse_error(reply)
