# shellcheck shell=bash disable=SC2034,SC2154
# Golden runs: one rank in every stage, then ranks that share the GPU.

golden_check() {
  most=$golden_seconds rule=golden check "$1" "$bin/golden" "${@:2}" --device=cuda "$timeout"
}

for golden in "$bundle"/golden/*/; do
  name=golden_$(basename "$golden")
  for stage in "${stages[@]}"; do
    golden_check "${name}_stage_${stage}_1" "$golden" --backend=gloo --nproc=1 --stage="$stage"
  done
done
for stage in "${stages[@]}"; do
  for n in "${ranks[@]}"; do
    for backend in gloo in_process; do
      golden_check "golden_adamw_stage_${stage}_${backend}_$n" "$bundle/golden/adamw" --share_gpu --backend=$backend \
        --nproc="$n" --stage="$stage"
    done
  done
done
