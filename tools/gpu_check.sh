#!/usr/bin/env bash
# gpu_check.sh PHASE...: what only a GPU can show, from a folder that gpu_bundle.sh made (this script lies in it; in the
# repository it takes ./gpu_bundle, or $ZEROSHARD_GPU_BUNDLE). Each phase takes at most 8 minutes and writes its
# results/phase_N.json when it ends, whatever comes after. It has not been run on a GPU yet.
#   1  every kernel against device/cpu; a part of them again under compute-sanitizer, where there is one
#   2  golden runs within 4e-7 (losses) and 1e-6 (norms): one rank in every stage; 2 to 4 ranks that share the GPU, over gloo
#      and in_process, in every stage of one of them
#   3  NCCL: on several GPUs plainly, on one with ranks that share it where NCCL lets them; gloo's bits; a rank killed
#   4  GPT-2 of 124 M and 774 M in bf16, 32768 tokens a step: at least 1.05 of compiled PyTorch's tokens a second, where PyTorch is here;
#      of the card's dense peak at least 0.45 at 774 M; the card's clocks
#   5  what cuDNN knows of the card, for device/cuda/testdata
# Exit code: 0 all phases passed, 1 one did not, 2 there is nothing to run them on ("no NVIDIA driver ...").
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bundle=$here
[ -e "$bundle/payload.tar.gz" ] || bundle=${ZEROSHARD_GPU_BUNDLE:-gpu_bundle}
if [ "$#" -eq 0 ]; then
  sed -n '2,12p' "${BASH_SOURCE[0]}" | cut -c3-
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
  output=$(timeout -k 5 "$(remaining)" "$@" </dev/null 2>"$results/$name.log")
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

# note JSON: a line of a phase that no check writes.
note() { lines+=("$1"); }

# Random tokens, in nanoGPT's form.
make_tokens() {
  python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(50257) for _ in range(1 << 20))).tofile(open(sys.argv[1], "wb"))' "$1"
}

# compare SIZE LEAST_OF_PEAK: what is asked of a size, of what two checks before have said.
compare() {
  python3 - "$results" "$1" "$2" <<'P'
import json, sys
results, size, least_of_peak = sys.argv[1], sys.argv[2], float(sys.argv[3])
def said(name):
    try:
        return json.loads([l for l in open(f"{results}/{name}.out") if l.startswith("{")][-1])
    except (OSError, IndexError, ValueError):
        return None
ours, peer = said("train_" + size), said("torch_" + size)
passed, result = ours is not None, {}
if ours:
    result["of_dense_peak"] = ours.get("mfu")
    passed = result["of_dense_peak"] is not None and result["of_dense_peak"] >= least_of_peak
if ours and peer:
    result["of_torch"] = ours["tokens_per_s"] / peer["tokens_per_s"]
    passed = passed and result["of_torch"] >= 1.05
print(json.dumps({"check": "compare_" + size, "passed": passed, "error": "" if peer else "no PyTorch with a GPU here", "result": result}))
sys.exit(0 if passed else 1)
P
}

phase_4() {
  local size layers heads width least sizes
  make_tokens "$bundle/run/tokens.bin"
  note "$(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit --format=csv,noheader 2>/dev/null |
    python3 -c 'import json, sys; print(json.dumps({"check": "clocks", "passed": True, "result": sys.stdin.read().splitlines()}))')"
  while read -r size layers heads width least; do
    sizes=(--layers="$layers" --heads="$heads" --width="$width" --context=1024 --vocab=50304 --batch=32 --steps=20)
    # Its summary is what the check reads.
    check "train_$size" bash -c '
      summary=$1
      shift
      "$@" --summary="$summary" >&2 && cat "$summary"' train "$results/train_$size.summary" \
      "$bin/train" --device=cuda --backend=gloo --nproc=1 --stage=0 --dtype=bf16 --clip=1 --sample=0 \
      --data="$bundle/run/tokens.bin" "${sizes[@]}"
    if python3 -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null; then
      check "torch_$size" env -u LD_LIBRARY_PATH python3 "$bundle/gpu_peer.py" "${sizes[@]}"
    fi
    note "$(compare "$size" "$least")"
    [[ ${lines[-1]} == *'"passed": true'* ]] || ok=false
  done <<'S'
124M 12 12 768 0
774M 36 20 1280 0.45
S
}

phase_5() {
  local gpu
  for ((gpu = 0; gpu < (gpus > 0 ? gpus : 1); ++gpu)); do
    check "device_properties_$gpu" "$bin/device_properties" "$gpu"
  done
}

worst=0
for phase in "$@"; do
  case $phase in
    1 | 2 | 3 | 4 | 5) ;;
    *)
      echo "gpu_check: there is no phase $phase; there are 1 to 5" >&2
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
