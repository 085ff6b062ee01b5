"""One module a dashboard, the order being that of its links."""

from grafana.boards import frontier, hosts, load_test, mongodb, overview, redis, workers

BOARDS = (
    overview.BOARD,
    frontier.BOARD,
    workers.BOARD,
    hosts.BOARD,
    redis.BOARD,
    mongodb.BOARD,
    load_test.BOARD,
)
