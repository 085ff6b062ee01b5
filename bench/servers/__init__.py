"""Real servers for the demo, the tests and the benchmarks: child processes on loopback."""

from bench.servers.mongo import EmbeddedMongo, MongoProgram, find_mongo, installed_mongo
from bench.servers.process import EmbeddedServer
from bench.servers.programs import ServerError, ServerMissingError
from bench.servers.redis import EmbeddedRedis, RedisProgram, find_redis, installed_redis

__all__ = [
    "EmbeddedMongo",
    "EmbeddedRedis",
    "EmbeddedServer",
    "MongoProgram",
    "RedisProgram",
    "ServerError",
    "ServerMissingError",
    "find_mongo",
    "find_redis",
    "installed_mongo",
    "installed_redis",
]
