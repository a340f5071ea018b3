# shellcheck shell=bash disable=SC2034,SC2154
# NCCL: collectives and golden runs by the tree, whose bits are gloo's; NCCL's own sums; a rank that is killed.

most=$nccl_seconds
golden=$bundle/golden/adamw

# sharing RANKS: sets `share`, the flags of so many ranks on the GPUs that are here.
sharing() {
  share=("--nproc=$1" "$timeout")
  [ "$1" -le "$gpus" ] || share+=(--share_gpu)
}

tree() {
  # shellcheck disable=SC2086
  check "nccl_bench_$1" "$bin/comm_bench" --backend=nccl --reduction=tree "${share[@]}" $bench
  rule=golden check "nccl_golden_$1" "$bin/golden" "$golden" --backend=nccl --reduction=tree "${share[@]}" --stage=3
  rule=golden check "gloo_golden_$1" "$bin/golden" "$golden" --backend=gloo --device=cuda "${share[@]}" --stage=3
  local ours gloos
  ours=$(said "nccl_golden_$1" bits)
  gloos=$(said "gloo_golden_$1" bits)
  if [ -n "$ours" ] && [ "$ours" = "$gloos" ]; then
    note "nccl_bits_$1" passed
  else
    note "nccl_bits_$1" failed "nccl's tree has the bits '$ours', gloo '$gloos'"
  fi
}

native() {
  local dtype
  for dtype in "${native_dtypes[@]}"; do
    check "nccl_native_${dtype}_$1" "$bin/comm_bench" --backend=nccl --reduction=native "${share[@]}" --dtype="$dtype" \
      --ops=reduce_scatter,all_reduce,reduce --sizes="$native_bytes" --iterations=5
  done
  rule=golden check "nccl_native_golden_$1" "$bin/golden" "$golden" --backend=nccl --reduction=native "${share[@]}" --stage=3
}

for n in "${ranks[@]}"; do
  sharing "$n"
  tree "$n"
  native "$n"
done
share=("$timeout")
[ "$gpus" -ge 2 ] || share+=(--share_gpu)
expected=4 check nccl_rank_killed bash "$parts/kill_a_rank.sh" "$results/nccl_rank_killed.log" "$bin/train" --backend=nccl \
  "${share[@]}" --data="$golden/tokens.bin" --layers=2 --heads=2 --width=64 --context=32 --vocab=512 --batch=4 --steps=1000000 --sample=0
