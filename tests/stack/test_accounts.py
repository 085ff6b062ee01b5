"""What the accounts of Redis and MongoDB may not do is tried."""

import shlex

import pytest

from tests.stack.stack import Stack

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("worker", "FLUSHALL"),
        ("worker", "FLUSHDB"),
        ("worker", "KEYS *"),
        ("worker", "SCAN 0"),
        ("worker", "CONFIG SET maxmemory 1"),
        ("worker", "CONFIG GET *"),
        ("worker", "CLIENT KILL TYPE normal"),
        ("worker", "CLIENT PAUSE 1000"),
        ("worker", "SCRIPT FLUSH"),
        ("worker", "ACL SETUSER me"),
        ("worker", "SHUTDOWN NOSAVE"),
        ("worker", "SET other 1"),
        ("worker", "HSET somebody:requests a 1"),
        ("exporter", "HSET {site}:meta done 1"),
        ("exporter", "DEL {site}:meta"),
        ("exporter", "EVAL 'return 1' 0"),
        ("exporter", "BF.ADD {site}:seen x"),
        ("exporter", "CONFIG SET maxmemory 1"),
        ("exporter", "CLIENT KILL TYPE normal"),
        ("dropin", "LPUSH {site}:inbox:0 x"),
        ("dropin", "HGETALL {site}:meta"),
        ("dropin", "FLUSHALL"),
        ("health", "INFO"),
        ("health", "HGETALL {site}:meta"),
    ],
)
def test_redis_refuses(stack: Stack, user: str, command: str) -> None:
    answer = stack.redis(user, *shlex.split(command))
    assert answer.startswith("NOPERM"), answer


def test_redis_answers_nobody_who_does_not_sign_in(stack: Stack) -> None:
    assert stack.redis("", "PING").startswith("NOAUTH")
    assert stack.redis("default", "PING").startswith("NOAUTH")


def test_redis_takes_the_drop_in_parts_of_scrapy_redis(stack: Stack) -> None:
    assert stack.redis("dropin", "ZADD", "old:requests", "0", "x") == "1"
    assert stack.redis("dropin", "DEL", "old:requests") == "1"


def test_mongo_refuses(stack: Stack) -> None:
    allowed = stack.mongo("""
system.other.things.insert_one({"_id": 1})
tries = {
    "worker drops a collection": lambda: worker.crawl.raw_pages.drop(),
    "worker drops the database": lambda: worker.drop_database("crawl"),
    "worker deletes": lambda: worker.crawl.raw_pages.delete_many({}),
    "worker makes an index": lambda: worker.crawl.raw_pages.create_index("status"),
    "worker makes a user": lambda: worker.admin.command("createUser", "me", pwd="me", roles=["root"]),
    "worker reads another database": lambda: worker.other.things.find_one(),
    "worker writes another database": lambda: worker.other.things.insert_one({}),
    "worker reads the users": lambda: worker.admin["system.users"].find_one(),
    "worker stops the server": lambda: worker.admin.command("shutdown"),
    "exporter reads pages": lambda: exporter.crawl.raw_pages.find_one(),
    "exporter writes": lambda: exporter.crawl.raw_pages.insert_one({}),
    "nobody reads": lambda: MongoClient("mongo", directConnection=True).crawl.raw_pages.find_one(),
    # That it is the rights which are lacking, and not the server:
    "worker reads its own": lambda: worker.crawl.raw_pages.find_one(),
    "exporter asks for the status": lambda: exporter.admin.command("serverStatus"),
}
allowed = []
for name, attempt in tries.items():
    try:
        attempt()
    except OperationFailure as error:
        assert error.code == 13, error
    else:
        allowed.append(name)
system.drop_database("other")
print(json.dumps(allowed))
""")
    assert allowed == ["worker reads its own", "exporter asks for the status"]
