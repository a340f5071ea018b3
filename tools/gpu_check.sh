#!/usr/bin/env bash
# gpu_check.sh PHASE...: what only a GPU can show, from a folder that gpu_bundle.sh made (this script lies in it; in the
# repository it takes ./gpu_bundle, or $ZEROSHARD_GPU_BUNDLE). Each phase takes at most 8 minutes (ZEROSHARD_GPU_CHECK_SECONDS) and
# writes results/phase_N.json after each of its checks, whatever comes after. It has not been run on a GPU yet.
#   1  every kernel against device/cpu; all of them again, suite by suite, under compute-sanitizer, where there is one
#   2  golden runs within 4e-7 (losses) and 1e-6 (norms): one rank in every stage; 2 to 4 ranks that share the GPU, over gloo
#      and in_process, in every stage of one of them
#   3  NCCL: on several GPUs plainly, on one with ranks that share it where NCCL lets them; gloo's bits; NCCL's own sums within their
#      bound (backends/nccl/collectives.h); a rank killed
#   4  GPT-2 of 124 M and 774 M in bf16, 32768 tokens a step: its own products and attention take at least 0.75 and 0.80 of the step; of the
#      card's dense peak at least 0.45 at 774 M; at least 1.05 of compiled PyTorch's tokens a second, where PyTorch is here; the clocks
#   5  what cuDNN knows of the card, for device/cuda/testdata
# Exit code: 0 all phases passed, 1 one did not, 2 there is nothing to run them on ("no NVIDIA driver ...").
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bundle=$here
[ -e "$bundle/payload.tar.gz" ] || bundle=${ZEROSHARD_GPU_BUNDLE:-gpu_bundle}
if [ "$#" -eq 0 ]; then
  sed -n '2,14p' "${BASH_SOURCE[0]}" | cut -c3-
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
reason=$(timeout 120 "$bin/comm_bench" --backend=nccl --device=cuda --nproc=1 --sizes=4 --ops=barrier --iterations=1 2>&1 >/dev/null)
if [ $? -eq 2 ]; then
  printf '%s\n' "$reason" | tail -1 >&2
  exit 2
fi
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
else
  gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
fi

ok=true
lines=()

# report ENDED: the phase's JSON as it is now.
report() {
  local IFS=, passed=false
  [ "$1" = false ] || passed=$ok
  printf '{"phase": %s, "passed": %s, "ended": %s, "seconds": %s, "gpus": %s, "checks": [%s]}\n' \
    "$phase" "$passed" "$1" $((SECONDS - begun)) "$gpus" "${lines[*]}" >"$results/phase_$phase.json.new"
  mv "$results/phase_$phase.json.new" "$results/phase_$phase.json"
}

# note JSON: a line of the phase.
note() {
  lines+=("$1")
  [[ $1 == *'"passed": true'* ]] || ok=false
  report false
}

# check NAME COMMAND...: one check of a phase; what it says last goes into the phase's JSON. $most, where it is set, is how many seconds it
# may take at the most.
check() {
  local name=$1 code line group seconds
  shift
  rm -f "$results/$name".{out,log,summary}
  if [ "$(remaining)" -le 0 ]; then
    note "{\"check\": \"$name\", \"passed\": false, \"error\": \"left out: the phase has had its $most_seconds seconds\"}"
    return
  fi
  # To files: a child that outlives its parent would hold a pipe, and with it this script. Nor does it outlive the check: timeout's process
  # group is its own.
  seconds=$(remaining)
  [ "${most:-$seconds}" -ge "$seconds" ] || seconds=$most
  timeout -k 5 "$seconds" "$@" </dev/null >"$results/$name.out" 2>"$results/$name.log" &
  group=$!
  wait "$group"
  code=$?
  kill -KILL -- "-$group" 2>/dev/null
  line=$(python3 - "$name" "$code" "${expected:-0}" "$results/$name" <<'P'
import json, re, sys
name, code, expected, path = sys.argv[1:5]
out = open(path + ".out", errors="replace").read()
said = [l for l in out.splitlines() if l.startswith("{")]
error = (open(path + ".log", errors="replace").read().splitlines() or out.splitlines())[-1:]
if code in ("124", "137"):
    error = ["ended, since its time was over"]
try:
    result = json.loads(said[-1]) if said else None
except ValueError:
    result = None
passed = code == expected
if name.startswith("golden") or "_golden_" in name:
    bounds = {"max_relative_loss_error": 4e-7, "max_relative_norm_error": 1e-6}
    passed = passed and isinstance(result, dict) and all(result.get(k, 1) <= bound for k, bound in bounds.items())
# Tests that were skipped have shown nothing.
if name.startswith("kernels") and passed:
    ran, skipped = (re.findall(r"(?m)^\[  %s ?\] (\d+) tests?[.,]" % word, out) for word in ("PASSED ", "SKIPPED"))
    result = {"tests": int(ran[-1]) if ran else 0, "skipped": int(skipped[-1]) if skipped else 0}
    passed = result["tests"] > 0 and result["skipped"] == 0
    error = ["no test has run" if result["tests"] == 0 else "tests were skipped"]
error = "" if passed else "".join(error)
print(json.dumps({"check": name, "exit_code": int(code), "passed": passed, "error": error, "result": result}))
P
  ) || line="{\"check\": \"$name\", \"passed\": false, \"error\": \"nobody could read what it said\"}"
  note "$line"
}
remaining() { echo $((deadline - SECONDS)); }

# Suites of kernels, those first that launch our own kernels alone.
suites() {
  "$bin/kernels_on_gpu_test" --gtest_list_tests 2>/dev/null | sed -nE 's/^([A-Za-z0-9_/]+)\.( .*)?$/\1/p' |
    awk '/PlannedKernels/ { last = last $0 "\n"; next } { print } END { printf "%s", last }'
}

# Their sizes are small as they are: all of them take two seconds on the doubles, which run a kernel's threads one after the other. What
# the sanitizer makes of the vendor's products and attention nobody has measured; so each suite has its share of the time.
phase_1() {
  local sanitizer suite most left=()
  check kernels "$bin/kernels_on_gpu_test"
  sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null) || return 0
  mapfile -t left < <(suites)
  if [ "${#left[@]}" -eq 0 ]; then
    note '{"check": "kernels_sanitized", "passed": false, "error": "kernels_on_gpu_test lists no suite"}'
  fi
  while [ "${#left[@]}" -gt 0 ]; do
    suite=${left[0]}
    most=$(($(remaining) / ${#left[@]}))
    check "kernels_sanitized_${suite##*/}" "$sanitizer" --error-exitcode 1 "$bin/kernels_on_gpu_test" --gtest_filter="$suite.*"
    left=("${left[@]:1}")
  done
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

# said NAME KEY: of the last object that a check's program printed; nothing where there is none.
said() {
  python3 -c 'import json, sys
print(json.loads([l for l in open(sys.argv[1]) if l.startswith("{")][-1])[sys.argv[2]])' "$results/$1.out" "$2" 2>/dev/null
}

phase_3() {
  local ranks dtype share=() golden
  golden=$bundle/golden/adamw
  for ranks in 2 3 4; do
    share=()
    [ "$ranks" -le "$gpus" ] || share=(--share_gpu)
    share+=("--nproc=$ranks")
    check "nccl_bench_$ranks" "$bin/comm_bench" --backend=nccl --reduction=tree "${share[@]}" --sizes=4,1048576,67108864
    check "nccl_golden_$ranks" "$bin/golden" "$golden" --backend=nccl --reduction=tree "${share[@]}" --stage=3
    check "gloo_golden_$ranks" "$bin/golden" "$golden" --backend=gloo --device=cuda "${share[@]}" --stage=3
    if [ "$(said "nccl_golden_$ranks" bits)" != "$(said "gloo_golden_$ranks" bits)" ]; then
      note "{\"check\": \"nccl_bits_$ranks\", \"passed\": false, \"error\": \"nccl's tree and gloo differ\"}"
    fi
    for dtype in fp32 bf16 fp16; do
      check "nccl_native_${dtype}_$ranks" "$bin/comm_bench" --backend=nccl --reduction=native "${share[@]}" --dtype=$dtype \
        --ops=reduce_scatter,all_reduce,reduce --sizes=4,1048576 --iterations=5
    done
    check "nccl_native_golden_$ranks" "$bin/golden" "$golden" --backend=nccl --reduction=native "${share[@]}" --stage=3
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

# Random tokens, in nanoGPT's form.
make_tokens() {
  python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(50257) for _ in range(1 << 20))).tofile(open(sys.argv[1], "wb"))' "$1"
}

# The card that runs go to, by nvidia-smi's number, and what it does while they go on: a line each 0.2 s.
watch_card() {
  local card=${CUDA_VISIBLE_DEVICES:-0}
  card=${card%%,*}
  export CUDA_DEVICE_ORDER=PCI_BUS_ID
  nvidia-smi --id="$card" --loop-ms=200 --format=csv,noheader,nounits \
    --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.draw,power.limit,utilization.gpu >"$1" 2>/dev/null &
  watcher=$!
}
stop_watching() {
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
}

# compare SIZE LEAST_OF_FLOOR LEAST_OF_PEAK: what is asked of a size, of what the checks before have said.
compare() {
  python3 - "$results" "$@" <<'P'
import csv, json, statistics, sys
results, size, least_of_floor, least_of_peak = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
def said(name):
    try:
        return json.loads([l for l in open(f"{results}/{name}.out") if l.startswith("{")][-1])
    except (OSError, IndexError, ValueError):
        return None
def card():
    try:
        lines = [[v.strip() for v in l] for l in csv.reader(open(f"{results}/card_{size}.csv")) if len(l) == 7]
    except OSError:
        lines = []
    def numbers(column, among):
        return [float(l[column]) for l in among if l[column].replace(".", "", 1).isdigit()]
    busy = [l for l in lines if numbers(6, [l]) and float(l[6]) >= 50]
    clocks = numbers(2, busy or lines)
    if not clocks:
        return {"gpu": lines[0][0]} if lines else {"gpu": None}
    return {"gpu": lines[0][0], "driver": lines[0][1], "sm_mhz_min": min(clocks), "sm_mhz_median": statistics.median(clocks),
            "sm_mhz_max": max(clocks), "sm_mhz_limit": lines[0][3], "power_w_max": max(numbers(4, lines), default=None),
            "power_w_limit": lines[0][5]}
ours, floor, peer = said("train_" + size), said("floor_" + size), said("torch_" + size)
result, missed = card(), []
def ask(what, value, least):
    result[what] = value
    if least > 0 and (value is None or value < least):
        missed.append(f"{what} is to be {least}")
if ours:
    result.update({k: ours.get(k) for k in ("step_s_median", "tokens_per_s", "dtype", "parameters")})
    result["floor_s_median"] = floor and floor["floor_s_median"]
    ask("of_floor", floor and floor["floor_s_median"] / ours["step_s_median"], least_of_floor)
    ask("of_dense_peak", ours.get("mfu"), least_of_peak)
    if peer:
        result["torch_tokens_per_s"] = peer["tokens_per_s"]
        ask("of_torch", ours["tokens_per_s"] / peer["tokens_per_s"], 1.05)
else:
    missed.append("no run")
if not peer:
    result["of_torch"] = "no PyTorch with a GPU here"
print(json.dumps({"check": "compare_" + size, "passed": not missed, "error": "; ".join(missed), "result": result}))
P
}

# train_check NAME COMMAND...: a run of train, whose one object is its summary's.
train_check() {
  # shellcheck disable=SC2016
  check "$1" bash -c 'summary=$1; shift; "$@" --summary="$summary" >&2 && cat "$summary"' train "$results/$1.summary" "${@:2}"
}

# stages SIZES: what stage 3 costs on all GPUs: its tokens per second of stage 0's.
stages() {
  local stage sizes=${1/--batch=32/--batch=$((32 * gpus))}
  for stage in 0 3; do
    # shellcheck disable=SC2086
    train_check "train_stage_$stage" "$bin/train" --backend=nccl --nproc="$gpus" --stage=$stage --dtype=bf16 --clip=1 --sample=0 \
      --data="$bundle/run/tokens.bin" $sizes
  done
  note "$(python3 - "$(said train_stage_0 tokens_per_s)" "$(said train_stage_3 tokens_per_s)" <<'P'
import json, sys
plain, sharded = (float(v) if v else None for v in sys.argv[1:])
ratio = sharded / plain if plain and sharded else None
passed = ratio is not None and ratio >= 0.95
print(json.dumps({"check": "compare_stages", "passed": passed, "error": "" if passed else "of_stage_0 is to be 0.95",
                  "result": {"stage_0_tokens_per_s": plain, "stage_3_tokens_per_s": sharded, "of_stage_0": ratio}}))
P
  )"
}

phase_4() {
  local size layers heads width of_floor of_peak sizes run
  local -A shapes=()
  make_tokens "$bundle/run/tokens.bin"
  while read -r size layers heads width; do
    sizes="--layers=$layers --heads=$heads --width=$width --context=1024 --vocab=50304 --batch=32 --steps=20"
    shapes[$size]=$sizes
    # shellcheck disable=SC2206
    run=("$bin/train" --device=cuda --backend=gloo --nproc=1 --stage=0 --dtype=bf16 --clip=1 --sample=0
      --data="$bundle/run/tokens.bin" $sizes)
    watch_card "$results/card_$size.csv"
    train_check "train_$size" "${run[@]}"
    check "floor_$size" "${run[@]}" --step_floor
    stop_watching
  done <<'S'
124M 12 12 768
774M 36 20 1280
S
  [ "$gpus" -lt 2 ] || stages "${shapes[124M]}"
  # Later, since its compiler may take what is left of the time.
  while read -r size of_floor of_peak; do
    if python3 -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null; then
      # shellcheck disable=SC2086
      check "torch_$size" env -u LD_LIBRARY_PATH python3 "$bundle/gpu_peer.py" ${shapes[$size]}
    fi
    note "$(compare "$size" "$of_floor" "$of_peak")"
  done <<'S'
124M 0.75 0
774M 0.80 0.45
S
}

phase_5() {
  local gpu
  for ((gpu = 0; gpu < (gpus > 0 ? gpus : 1); ++gpu)); do
    check "device_properties_$gpu" "$bin/device_properties" "$gpu"
  done
}

# A check that is ended takes 5 seconds more to be gone.
most_seconds=${ZEROSHARD_GPU_CHECK_SECONDS:-470}
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
  deadline=$((SECONDS + most_seconds))
  report false
  "phase_$phase"
  report true
  cut -c1-200 "$results/phase_$phase.json"
  [ "$ok" = true ] || worst=1
done
exit "$worst"
