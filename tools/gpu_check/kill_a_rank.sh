#!/usr/bin/env bash
# kill_a_rank.sh LOG COMMAND...: runs the two ranks of a job, without a launcher, which would end the other one at once; kills rank 1
# once steps go on, and ends as rank 0 does, which is to name it. LOG is the file that the standard error goes to.
set -uo pipefail
log=$1
shift
token=$log.token
(umask 077 && python3 -c 'import secrets; print(secrets.token_hex(16))' >"$token")
MASTER_PORT=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
export MASTER_ADDR=127.0.0.1 MASTER_PORT WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 "$@" --token_file="$token" &
survivor=$!
RANK=1 LOCAL_RANK=1 "$@" --token_file="$token" &
victim=$!
until grep -q '^step ' "$log" || ! kill -0 "$survivor" 2>/dev/null; do sleep 0.1; done
kill -9 "$victim"
{ wait "$victim"; } 2>/dev/null
wait "$survivor"
code=$?
rm -f "$token"
if ! grep -q '^step ' "$log"; then
  echo "rank 0 has ended with $code before its first step: $(tail -n 1 "$log")" >&2
  exit 1
fi
if ! grep -q '^error: .*rank 1 ' "$log"; then
  echo "rank 0 has ended with $code, and has not named rank 1, which was killed: $(tail -n 1 "$log")" >&2
  exit 1
fi
exit "$code"
