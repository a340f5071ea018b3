# shellcheck shell=bash disable=SC2034,SC2154
# Part of gpu_check.sh: finds the bundle and what is to be run on. Sets and exports bundle, results, library_path (for our
# programs), callers_library_path and gpus; ends with 2, in one line, where there is nothing to run on.

# refuse WHY
refuse() {
  printf '%s\n' "$1" >&2
  exit 2
}

export bundle=$here
[ -e "$bundle/payload.tar.gz" ] || bundle=${ZEROSHARD_GPU_BUNDLE:-gpu_bundle}
[ -e "$bundle/payload.tar.gz" ] || refuse "gpu_check: no bundle in $(readlink -m "$bundle"): make one by tools/gpu_bundle.sh"
bundle=$(readlink -f "$bundle")
export results=$bundle/results
mkdir -p "$bundle/run" "$results" || exit 2
tar -C "$bundle/run" -xzf "$bundle/payload.tar.gz" || refuse "gpu_check: $bundle is not whole: make it again by tools/gpu_bundle.sh"
command -v python3 >/dev/null || refuse "gpu_check: no python3 in PATH, which reads what the programs say: install one, of any version from 3.6 on"

# What a launcher has set for this script is not for the jobs that it starts.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT "${!SLURM_@}" "${!OMPI_@}" "${!PMI@}" "${!MPI_LOCAL@}"

# Our libraries; then NVIDIA's: the toolkit's, else those of Python wheels.
export callers_library_path=${LD_LIBRARY_PATH:-}
export library_path=$bundle/run/lib
for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 "${CUDA_HOME:-/usr/local/cuda}"/lib \
  $(python3 -c 'import site, sys; print(*site.getsitepackages(), site.getusersitepackages())' 2>/dev/null |
    tr ' ' '\n' | while read -r packages; do ls -d "$packages"/nvidia/*/lib 2>/dev/null; done); do
  [ -d "$folder" ] && library_path=$library_path:$folder
done
library_path=$library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

has=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
needs=$(cat "$bundle/libc_version")
[ "$(printf '%s\n%s\n' "$needs" "$has" | sort -V | head -1)" = "$needs" ] ||
  refuse "gpu_check: this machine has the C library $has, and the programs need $needs: make the bundle on an older system"

# What the programs themselves say where there is no GPU to use; else a rank for each GPU that is visible, which they count.
said=$(LD_LIBRARY_PATH=$library_path timeout 120 "$bundle/run/bin/comm_bench" --backend=in_process --device=cuda --sizes=4 \
  --ops=barrier --iterations=1 2>"$results/machine.log")
code=$?
[ "$code" -ne 2 ] || refuse "$(tail -n 1 "$results/machine.log" | sed 's/, or leave out --device=cuda and --backend=nccl$//')"
gpus=$(sed -nE 's/^# in_process, ([0-9]+) ranks,.*/\1/p' <<<"$said")
if [ -z "$gpus" ]; then
  gpus=1
  echo "gpu_check: the GPUs could not be counted (exit code $code; $results/machine.log), so one is taken" >&2
fi
export gpus
