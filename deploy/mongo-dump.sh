#!/bin/bash
# In a container of MongoDB's image: all of MongoDB as of one point in time (--oplog), compressed, to standard output.
set -eu

umask 077
# A file, as what stands in an argument is seen by everyone who lists processes.
printf "password: '%s'\n" "$(sed "s/'/''/g" /run/secrets/mongo_backup)" >/tmp/login.yaml
exec mongodump --config=/tmp/login.yaml --host=rs0/mongo:27017 --username=backup --authenticationDatabase=admin \
  --oplog --gzip --archive
