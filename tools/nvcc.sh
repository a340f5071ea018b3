#!/usr/bin/env bash
# nvcc.sh NVCC ARGS...: compiles device code, and refuses what spills registers (ptxas -v says so) with each kernel's name.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" -Xptxas -v >"$log" 2>&1
status=$?
grep -vE '^ptxas info|bytes stack frame|^[[:space:]]*$' "$log" >&2
[ "$status" -eq 0 ] || exit "$status"
spills=$(awk '/Compiling entry function/ { kernel = $0 }
              / bytes spill / && !/ 0 bytes spill stores, 0 bytes spill loads/ { print kernel; print $0 }' "$log" | c++filt)
[ -z "$spills" ] && exit 0
printf 'registers are spilled:\n%s\n' "$spills" >&2
exit 1
