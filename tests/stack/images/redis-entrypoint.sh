#!/bin/sh
# As the original's: only a command that is redis-server itself gets the modules.
if [ "$1" = redis-server ]; then
    exec "$@" --loadmodule /usr/local/lib/redis/modules/redisbloom.so
fi
exec "$@"
