#!/usr/bin/env bash
# gpu_bundle.sh [FOLDER]: makes FOLDER (default: gpu_bundle, where it is called) with all that tools/gpu_check.sh needs on a
# machine with a GPU but without Bazel, packages or network: stripped programs, the libraries that they need, goldens. NVIDIA's
# libraries are left out: they come from the toolkit there, or from Python wheels. At most 60 MiB; what is large is compressed.
# BAZEL, where it is set, is called for bazel: BAZEL="bazel --bazelrc=.ci/bazelrc".
set -euo pipefail

repository=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
folder=$(readlink -m "${1:-gpu_bundle}")
most_kib=$((60 * 1024))
files=(tools/train tools/golden tools/comm_bench tools/libzeroshard_cuda.so
  device/cuda/kernels_on_gpu_test device/cuda/device_properties)
read -ra bazel <<<"${BAZEL:-bazel}"
if [ -e "$folder" ] && [ ! -e "$folder/payload.tar.gz" ]; then
  echo "gpu_bundle: $folder is there and is no bundle: name another folder" >&2
  exit 2
fi

cd "$repository"
targets=()
for file in "${files[@]}"; do targets+=("//${file%/*}:${file##*/}"); done
"${bazel[@]}" build "${targets[@]}"
bin=$("${bazel[@]}" info bazel-bin)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/payload/bin" "$scratch/payload/lib"

# take FILE FOLDER: a stripped copy.
take() {
  cp -L "$1" "$2/"
  chmod u+w "$2/${1##*/}"
  strip --strip-unneeded "$2/${1##*/}"
}

for file in "${files[@]}"; do take "$bin/$file" "$scratch/payload/bin"; done

# Without NVIDIA's own, and without the C library, which has to fit the driver: the machine's own is taken, and must be as new.
others='(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda|libcudart|libcublas[^/]*|libcudnn[^/]*|libnvrtc[^/]*|libnccl)'
for file in "${files[@]}"; do ldd "$bin/$file"; done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  { grep -vE "/$others\.so" || true; } | while read -r library; do take "$library" "$scratch/payload/lib"; done

rm -rf "$folder"
mkdir -p "$folder/golden"
tar -C "$scratch/payload" -czf "$folder/payload.tar.gz" .
for golden in integration_tests/testdata/golden/*/; do cp -rL "${golden%/}" "$folder/golden/"; done
mkdir "$folder/gpu_check"
cp tools/gpu_check.sh "$folder/"
cp tools/gpu_check/*.sh tools/gpu_check/*.py tools/gpu_check/README.md "$folder/gpu_check/"
getconf GNU_LIBC_VERSION | cut -d' ' -f2 >"$folder/libc_version"

size_kib=$(du -sk "$folder" | cut -f1)
if [ "$size_kib" -gt "$most_kib" ]; then
  echo "gpu_bundle: $folder has $size_kib KiB, and may have $most_kib" >&2
  exit 1
fi
echo "gpu_bundle: $folder, $((size_kib / 1024)) MiB; on the machine with the GPU: $(basename "$folder")/gpu_check.sh 1 2 3 4 5"
