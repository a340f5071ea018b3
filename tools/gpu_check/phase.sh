#!/usr/bin/env bash
# phase.sh SECONDS: a phase of gpu_check.sh, in a process of its own: phase_$GPU_CHECK_PHASE_*.sh, with what all phases use.
# A check that is still running when the phase is told to end is ended with it.
set -uo pipefail

parts=$(dirname "${BASH_SOURCE[0]}")
bin=$bundle/run/bin
phase_seconds=$1
deadline=$((SECONDS + phase_seconds))
group=
watcher=
end_children() {
  [ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
}
trap 'end_children; exit 124' TERM
trap 'end_children; exit 130' INT

remaining() { echo $((deadline - SECONDS)); }

# note NAME passed|failed|left_out WHY: a line of the phase that no program's end decides.
note() { python3 "$parts/results.py" note "$@"; }

# check NAME COMMAND...: one check of a phase, and its line. Returns 0 where it passed, 1 where it did not, 2 where it was left out.
#   most            how many seconds it may take at the most; always no more than the phase has left
#   rule            what decides beside the exit code (verdict.py); default: nothing
#   expected        the exit code; default 0
#   libraries       where libraries are looked for; default: ours and NVIDIA's
check() {
  local name=$1 code began=$SECONDS seconds
  shift
  rm -f "$results/$name".{out,log,summary}
  seconds=$(remaining)
  if [ "$seconds" -le 0 ]; then
    note "$name" failed "not begun: the phase has had its $phase_seconds seconds"
    return 1
  fi
  [ "${most:-$seconds}" -ge "$seconds" ] || seconds=$((most > 0 ? most : 1))
  # To files: a child that outlives its parent would hold a pipe, and with it this script. Nor does it outlive the check: timeout's process
  # group is its own.
  LD_LIBRARY_PATH=${libraries-$library_path} timeout -k 5 "$seconds" "$@" \
    </dev/null >"$results/$name.out" 2>"$results/$name.log" &
  group=$!
  wait "$group"
  code=$?
  kill -KILL -- "-$group" 2>/dev/null
  group=
  python3 "$parts/verdict.py" "$name" "${rule:-exit_code}" "$code" "${expected:-0}" $((SECONDS - began)) "$seconds"
}

# said NAME KEY: of the last object that a check's program printed; nothing where there is none.
said() {
  python3 -c 'import json, sys
print(json.loads([l for l in open(sys.argv[1]) if l.startswith("{")][-1])[sys.argv[2]])' "$results/$1.out" "$2" 2>/dev/null
}

source "${ZEROSHARD_GPU_CHECK_SIZES:-$parts/sizes.sh}"
source "$parts/phase_${GPU_CHECK_PHASE}"_*.sh
exit 0
