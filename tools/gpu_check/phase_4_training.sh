# shellcheck shell=bash disable=SC2034,SC2154
# GPT-2 in bf16 beside its own products and attention, beside stage 0, and beside PyTorch.

most=$train_seconds
tokens=$bundle/run/tokens.bin

# Random, in nanoGPT's form; fewer than any vocabulary here has.
make_tokens() {
  python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(int(sys.argv[2])) for _ in range(1 << 20))).tofile(open(sys.argv[1], "wb"))' "$tokens" "$1"
}

# The card that runs go to, by nvidia-smi's number, and what it does while they go on: a line each 0.2 s, written at once, since
# it is ended by a signal.
watch_card() {
  local card=${CUDA_VISIBLE_DEVICES:-0}
  card=${card%%,*}
  export CUDA_DEVICE_ORDER=PCI_BUS_ID
  stdbuf -oL nvidia-smi --id="$card" --loop-ms=200 --format=csv,noheader,nounits \
    --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.draw,power.limit,utilization.gpu \
    >"$results/card_$1.csv" 2>/dev/null &
  watcher=$!
}
stop_watching() {
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
  watcher=
}

# train_check NAME COMMAND...: a run of train, whose one object is its summary's.
train_check() {
  # shellcheck disable=SC2016
  check "$1" bash -c 'summary=$1; shift; "$@" --summary="$summary" >&2 && cat "$summary"' train "$results/$1.summary" "${@:2}"
}

# flags_of LAYERS HEADS WIDTH: sets `flags`, of a model and a rank's micro-batch.
flags_of() {
  # shellcheck disable=SC2206
  flags=(--layers="$1" --heads="$2" --width="$3" --batch="$batch" $shape)
}

# What both runs have, but for the number of ranks and the stage.
training=(--dtype=bf16 --clip=1 --sample=0 --data="$tokens")

own_products() {
  local size=$1 of_floor=$5 of_peak=$6
  flags_of "${@:2:3}"
  local run=("$bin/train" --device=cuda --backend=gloo --nproc=1 --stage=0 "${training[@]}" "${flags[@]}")
  watch_card "$size"
  train_check "train_$size" "${run[@]}"
  check "floor_$size" "${run[@]}" --step_floor
  stop_watching
  python3 "$parts/compare.py" floor "$size" "$of_floor" "$of_peak"
}

# What stage 3 costs on all GPUs.
all_gpus() {
  local stage
  flags_of "${@:2:3}"
  for stage in 0 3; do
    train_check "train_stage_$stage" "$bin/train" --backend=nccl --nproc="$gpus" --stage=$stage "${training[@]}" "${flags[@]}"
  done
  python3 "$parts/compare.py" stages "$least_of_stage_0"
}

torch() {
  flags_of "${@:2:3}"
  libraries=$callers_library_path most=$torch_seconds rule=peer \
    check "torch_$1" python3 "$parts/gpu_peer.py" "${flags[@]}"
  # Where it could not run there is nothing to compare.
  [ "$?" -eq 2 ] || python3 "$parts/compare.py" torch "$1" "$least_of_torch"
}

# each FUNCTION: with each line of `models`.
each() {
  local model=()
  while read -ra model; do
    [ "${#model[@]}" -eq 0 ] || "$1" "${model[@]}"
  done <<<"$models"
}

make_tokens "$(sed -nE 's/.*--vocab=([0-9]+).*/\1/p' <<<"$shape")"
each own_products
if [ "$gpus" -ge 2 ]; then
  read -ra first <<<"$(grep -m 1 . <<<"$models")"
  all_gpus "${first[@]}"
else
  note compare_stages left_out "one GPU"
fi
# Last, since its compiler may take what is left of the time.
each torch
