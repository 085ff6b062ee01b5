#!/bin/bash
# `make backup` and `make restore`: MongoDB as of one point in time, as one file on this machine.
#   backup.sh backup FOLDER     a new file there; it has its name when it is whole
#   backup.sh restore FILE      in the place of what is in MongoDB
set -eu -o pipefail

fail() {
  echo "$0: $*" >&2
  exit 1
}

run() {
  docker compose --profile '*' run --rm --no-deps -T "$@"
}

backup() {
  local folder=$1 name size_bytes
  name=seedbed-$(date -u +%Y%m%dT%H%M%SZ).archive.gz
  part=$folder/.$name.part # not local: the trap wants it at the end
  mkdir -p "$folder"
  umask 077 # it holds all that was crawled, and the digests of passwords
  trap 'rm -f "$part"' EXIT
  run backup </dev/null >"$part" || fail "mongodump failed (exit code $?); nothing is kept"
  gzip --test "$part" || fail "what mongodump gave is damaged or cut short; nothing is kept"
  sync "$part"
  mv "$part" "$folder/$name"
  size_bytes=$(wc -c <"$folder/$name")
  # For the monitoring: the backup is good without it, but the alert BackupTooOld would come.
  run backup-note python -m crawler.storage.maintenance "$name" "$size_bytes" </dev/null ||
    fail "$folder/$name is complete, but could not be noted in MongoDB"
  echo "$folder/$name: $size_bytes bytes"
}

restore() {
  local file=$1
  [[ -r $file ]] || fail "$file can't be read"
  gzip --test "$file" || fail "$file is damaged or cut short; nothing was touched"
  [[ -z $(docker compose ps --quiet worker) ]] || fail 'workers run: docker compose stop worker, and once more'
  run restore <"$file" || fail "mongorestore failed (exit code $?): MongoDB may hold a part; run it again"
  # The accounts came from the dump, too: they get today's passwords and rights.
  run mongo-setup </dev/null || fail 'the accounts could not be made: docker compose up mongo-setup'
  echo "MongoDB is as it was in $file. Start the workers: make up"
}

case ${1:-} in
  backup) backup "${2:?a folder is wanted}" ;;
  restore) restore "${2:?a file is wanted}" ;;
  *) fail 'backup FOLDER, or restore FILE' ;;
esac
