#!/usr/bin/env bash
# clang-format and clang-tidy over the whole tree; any finding fails. `tools/lint.sh --fix` settles the formatting in place first.
# The same as `bazel build --config=lint //...`; arguments after -- replace //... by other targets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --fix ]; then
  shift
  git ls-files -z -- '*.h' '*.cc' | xargs -0 --no-run-if-empty clang-format -i
fi
[ "${1:-}" = -- ] && shift
exec bazel build --config=lint --keep_going "${@:-//...}"
