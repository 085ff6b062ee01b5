#!/bin/bash
# In a container of MongoDB's image: a dump from standard input in the place of what is there. Signs in as the server
# itself, by its key file: replaying the dump's oplog may want any right, and no account has it.
set -eu

umask 077
printf "password: '%s'\n" "$(tr -d '[:space:]' </run/secrets/mongo_keyfile)" >/tmp/login.yaml
exec mongorestore --config=/tmp/login.yaml --host=rs0/mongo:27017 --username=__system --authenticationDatabase=local \
  --drop --oplogReplay --gzip --archive
