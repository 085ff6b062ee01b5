#!/bin/bash
# Is MongoDB of use? Asks `hello` as any client does: healthy is a primary, or a server whose set is not yet initiated
# (mongo-setup waits for that). In bash alone, as mongosh takes a second of a processor for each check.
set -eu

exec 3<>/dev/tcp/127.0.0.1/27017
# An OP_MSG (52 bytes, request 1, opcode 2013) with the document {hello: 1, $db: "admin"}.
printf '\x34\0\0\0\1\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\1\0\0\0\x02$db\0\x06\0\0\0admin\0\0' >&3
# The answer begins with its length; a true in it is the field's name, a zero and a one.
size_bytes=$(head -c 4 <&3 | od -An -t u4)
head -c $((size_bytes - 4)) <&3 | tr '\0\1' '#1' | grep -aqE 'isWritablePrimary#1|isreplicaset#1'
