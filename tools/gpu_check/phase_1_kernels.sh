# shellcheck shell=bash disable=SC2034,SC2154
# Every kernel against device/cpu, plainly and under the sanitizer.
#
# Their sizes are small as they are: all of them take two seconds on the doubles, which run a kernel's threads one after the other. What
# the sanitizer makes of the vendor's products and attention nobody has measured; so each suite has its share of the time, and one that
# is cut off says where.

# Those first that launch our own kernels alone.
list_suites() {
  LD_LIBRARY_PATH=$library_path "$bin/kernels_on_gpu_test" --gtest_list_tests 2>/dev/null |
    sed -nE 's/^([A-Za-z0-9_/]+)\.( .*)?$/\1/p' |
    awk '/PlannedKernels/ { last = last $0 "\n"; next } { print } END { printf "%s", last }'
}

sanitize() {
  local sanitizer suite suites=() left
  if ! sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null); then
    note kernels_sanitized left_out "no compute-sanitizer in PATH, nor in ${CUDA_HOME:-/usr/local/cuda}/bin"
    return 0
  fi
  mapfile -t suites < <(list_suites)
  left=${#suites[@]}
  [ "$left" -gt 0 ] || note kernels_sanitized failed "kernels_on_gpu_test lists no suite"
  for suite in "${suites[@]}"; do
    most=$(($(remaining) / left)) rule=sanitized check "kernels_sanitized_${suite##*/}" \
      "$sanitizer" --error-exitcode 1 "$bin/kernels_on_gpu_test" --gtest_filter="$suite.*"
    # It does not know this machine, or card: it says so of each.
    [ "$?" -ne 2 ] || return 0
    left=$((left - 1))
  done
}

most=$kernels_seconds rule=tests check kernels "$bin/kernels_on_gpu_test"
sanitize
