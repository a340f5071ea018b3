#!/usr/bin/env bash
# gpu_check.sh PHASE...: what only a GPU can show, from a folder that gpu_bundle.sh made (this script lies in it; in the
# repository it takes ./gpu_bundle, or $ZEROSHARD_GPU_BUNDLE). Each phase takes at most 8 minutes, and writes a line of
# results/phase_N.jsonl as soon as each of its checks has ended, whatever comes after. It has not been run on a GPU yet.
#   1  every kernel against device/cpu; all of them again, suite by suite, under compute-sanitizer, where there is one
#   2  golden runs within 4e-7 (losses) and 1e-6 (norms): one rank in every stage; 2 to 4 ranks that share the GPU, over gloo
#      and in_process, in every stage of one of them
#   3  NCCL: on several GPUs plainly, on one with ranks that share it where NCCL lets them; gloo's bits; NCCL's own sums
#      within their bound (backends/nccl/collectives.h); a rank killed
#   4  GPT-2 of 124 M and 774 M in bf16, 32768 tokens a step: its own products and attention take at least 0.75 and 0.80 of
#      the step; of the card's dense peak at least 0.45 at 774 M; at least 1.05 of compiled PyTorch's tokens a second, where
#      PyTorch is here; stage 3 at least 0.95 of stage 0, on several GPUs; the clocks
#   5  what cuDNN knows of the card, for device/cuda/testdata
# Exit code: 0 all phases passed, 1 one did not, 2 there is nothing to run them on ("no NVIDIA driver ...").
# gpu_check/README.md says more.
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
parts=$here/gpu_check
if [ "$#" -eq 0 ]; then
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | sed -n 's/^# //p'
  exit 2
fi
for phase in "$@"; do
  if [[ ! $phase =~ ^[1-5]$ ]]; then
    echo "gpu_check: there is no phase '$phase': there are 1, 2, 3, 4 and 5" >&2
    exit 2
  fi
done
export PYTHONDONTWRITEBYTECODE=1
source "$parts/machine.sh"

# A phase ends its checks itself; what it leaves is ended with it. Together less than 8 minutes.
most=${ZEROSHARD_GPU_CHECK_SECONDS:-460}
trap 'exit 130' INT TERM
worst=0
for phase in "$@"; do
  export GPU_CHECK_PHASE=$phase GPU_CHECK_LINES=$results/phase_$phase.jsonl
  : >"$GPU_CHECK_LINES"
  began=$SECONDS
  timeout --foreground -k 8 $((most + 10)) bash "$parts/phase.sh" "$most"
  python3 "$parts/results.py" end "$?" $((SECONDS - began)) "$gpus" || worst=1
done
exit "$worst"
