#!/usr/bin/env bash
# gpu_check.sh PHASE...: what only a GPU can show, from a folder that gpu_bundle.sh made (this script lies in it; in the
# repository it takes ./gpu_bundle, or $ZEROSHARD_GPU_BUNDLE). Each phase takes at most 8 minutes and writes its
# results/phase_N.json when it ends, whatever comes after. It has not been run on a GPU yet.
#   1  every kernel against device/cpu; a part of them again under compute-sanitizer, where there is one
#   2  golden runs within 4e-7 (losses) and 1e-6 (norms): one rank in every stage; 2 to 4 ranks that share the GPU, over gloo
#      and in_process, in every stage of one of them
#   3  NCCL: on several GPUs plainly, on one with ranks that share it where NCCL lets them; gloo's bits; a rank killed
# Exit code: 0 all phases passed, 1 one did not, 2 there is nothing to run them on ("no NVIDIA driver ...").
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bundle=$here
[ -e "$bundle/payload.tar.gz" ] || bundle=${ZEROSHARD_GPU_BUNDLE:-gpu_bundle}
if [ "$#" -eq 0 ]; then
  sed -n '2,10p' "${BASH_SOURCE[0]}" | cut -c3-
  exit 2
fi
if [ ! -e "$bundle/payload.tar.gz" ]; then
  echo "gpu_check: no bundle in $bundle: make one by tools/gpu_bundle.sh" >&2
  exit 2
fi
bundle=$(readlink -f "$bundle")
results=$bundle/results
mkdir -p "$bundle/run" "$results"
tar -C "$bundle/run" -xzf "$bundle/payload.tar.gz"

# NVIDIA's libraries: the toolkit's, else those of Python wheels.
libraries=$bundle/run/lib
for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 "${CUDA_HOME:-/usr/local/cuda}"/lib \
  $(python3 -c 'import site, sys; print(*site.getsitepackages(), site.getusersitepackages())' 2>/dev/null |
    tr ' ' '\n' | while read -r packages; do ls -d "$packages"/nvidia/*/lib 2>/dev/null; done); do
  [ -d "$folder" ] && libraries=$libraries:$folder
done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
bin=$bundle/run/bin

have=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
need=$(cat "$bundle/libc_version")
if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" != "$need" ]; then
  echo "gpu_check: this machine has the C library $have, and the programs need $need" >&2
  exit 2
fi

# What the programs themselves say where there is no GPU to use.
reason=$("$bin/comm_bench" --backend=nccl --device=cuda --nproc=1 --sizes=4 --ops=barrier --iterations=1 2>&1 >/dev/null)
if [ $? -eq 2 ]; then
  printf '%s\n' "$reason" | tail -1 >&2
  exit 2
fi
gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)

ok=true
lines=()
# check NAME COMMAND...: one check of a phase; what it says last goes into the phase's JSON.
check() {
  local name=$1 code output line
  shift
  output=$(timeout -k 5 "$(remaining)" "$@" 2>"$results/$name.log")
  code=$?
  printf '%s\n' "$output" >"$results/$name.out"
  line=$(python3 - "$name" "$code" "${expected:-0}" "$results/$name" <<'P'
import json, sys
name, code, expected, path = sys.argv[1:5]
said = [l for l in open(path + ".out", errors="replace").read().splitlines() if l.startswith("{")]
error = open(path + ".log", errors="replace").read().splitlines()[-1:]
try:
    result = json.loads(said[-1]) if said else None
except ValueError:
    result = None
passed = code == expected
if name.startswith("golden") or "_golden_" in name:
    bounds = {"max_relative_loss_error": 4e-7, "max_relative_norm_error": 1e-6}
    passed = passed and result is not None and all(result[k] <= bound for k, bound in bounds.items())
print(json.dumps({"check": name, "exit_code": int(code), "passed": passed, "error": "".join(error), "result": result}))
sys.exit(0 if passed else 1)
P
  ) || ok=false
  lines+=("$line")
}
remaining() { echo $((deadline > SECONDS ? deadline - SECONDS : 1)); }

phase_1() {
  check kernels "$bin/kernels_on_gpu_test"
  local sanitizer
  if sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null); then
    check sanitizer "$sanitizer" --error-exitcode 1 "$bin/kernels_on_gpu_test" --gtest_filter="*Reduce*:*Elementwise*"
  fi
}

phase_2() {
  local golden name stage ranks backend
  for golden in "$bundle"/golden/*/; do
    name=golden_$(basename "$golden")
    for stage in 0 1 2 3; do
      check "${name}_stage_${stage}_1" "$bin/golden" "$golden" --device=cuda --backend=gloo --nproc=1 --stage=$stage
    done
  done
  for stage in 0 1 2 3; do
    for ranks in 2 3 4; do
      for backend in gloo in_process; do
        check "golden_adamw_stage_${stage}_${backend}_$ranks" "$bin/golden" "$bundle/golden/adamw" --device=cuda --share_gpu \
          --backend=$backend --nproc=$ranks --stage=$stage
      done
    done
  done
}

# The bits of a run: of golden's one object.
bits() { python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).read().splitlines()[-1])["bits"])' "$1" 2>/dev/null; }

phase_3() {
  local ranks share=() golden
  golden=$bundle/golden/adamw
  for ranks in 2 3 4; do
    share=()
    [ "$ranks" -le "$gpus" ] || share=(--share_gpu)
    share+=("--nproc=$ranks")
    check "nccl_bench_$ranks" "$bin/comm_bench" --backend=nccl --reduction=tree "${share[@]}" --sizes=4,1048576,67108864
    check "nccl_golden_$ranks" "$bin/golden" "$golden" --backend=nccl --reduction=tree "${share[@]}" --stage=3
    check "gloo_golden_$ranks" "$bin/golden" "$golden" --backend=gloo --device=cuda "${share[@]}" --stage=3
    if [ "$(bits "$results/nccl_golden_$ranks.out")" != "$(bits "$results/gloo_golden_$ranks.out")" ]; then
      ok=false
      lines+=("{\"check\": \"nccl_bits_$ranks\", \"passed\": false, \"error\": \"nccl's tree and gloo differ\"}")
    fi
  done
  share=()
  [ "$gpus" -ge 2 ] || share=(--share_gpu)
  expected=4 check nccl_rank_killed bash -c '
    "$@" & job=$!
    sleep 30
    kill -9 "$(pgrep -P "$job" | tail -1)"
    wait "$job"' killed "$bin/train" --backend=nccl --nproc=2 "${share[@]}" --steps=1000000 --sample=0 --timeout=20 \
    --data="$golden/tokens.bin"
}

worst=0
for phase in "$@"; do
  case $phase in
    1 | 2 | 3) ;;
    *)
      echo "gpu_check: there is no phase $phase; there are 1, 2 and 3" >&2
      exit 2
      ;;
  esac
  ok=true
  lines=()
  begun=$SECONDS
  deadline=$((SECONDS + 480))
  "phase_$phase"
  [ "$SECONDS" -lt "$deadline" ] || ok=false
  (
    IFS=,
    printf '{"phase": %s, "passed": %s, "seconds": %s, "gpus": %s, "checks": [%s]}\n' \
      "$phase" "$ok" $((SECONDS - begun)) "$gpus" "${lines[*]}"
  ) | tee "$results/phase_$phase.json" | cut -c1-200
  [ "$ok" = true ] || worst=1
done
exit "$worst"
