#!/usr/bin/env bash
# Installs the Debian 12 packages that zeroshard builds and runs with (tools/packages.txt), those alone that are missing.
# With --launchers also those of tools/launchers.txt: Open MPI, MPICH, Slurm and iproute2, for the tests that run where they are there.
# With --fuzz also those of tools/fuzz/packages.txt, for --config=fuzz.
# Run it as often as you like; it says what it does. Needs root, or sudo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lists=("$here/packages.txt")
case "${1:-}" in
  "") ;;
  --launchers) lists+=("$here/launchers.txt") ;;
  --fuzz) lists+=("$here/fuzz/packages.txt") ;;
  *) echo "setup: unknown argument $1; there are --launchers and --fuzz" >&2; exit 2 ;;
esac

# cuDNN's frontend is headers in a Python package, and only a build with a CUDA toolkit wants them: into the user's cache, where the build
# looks (tools/workspace/cudnn_frontend.bzl). What fails here is said, and leaves attention to our own kernels.
frontend_home=${XDG_CACHE_HOME:-$HOME/.cache}/zeroshard/cudnn_frontend
wants_frontend() {
  [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || command -v nvcc >/dev/null || return 1
  [ ! -e "$frontend_home/include/cudnn_frontend.h" ]
}
cudnn_frontend() {
  local version=1.32.0 home=$frontend_home scratch
  wants_frontend || return 0
  scratch=$(mktemp -d)
  if python3 -m pip download -q --no-deps --dest "$scratch" "nvidia-cudnn-frontend==$version" >/dev/null 2>&1 \
    && (cd "$scratch" && python3 -m zipfile -e ./*.whl wheel) && mkdir -p "$home" && cp -r "$scratch/wheel/include" "$home/"; then
    echo "setup: cuDNN's frontend $version is in $home"
  else
    echo "setup: no cuDNN frontend (pip download nvidia-cudnn-frontend): attention will be our own kernels'"
  fi
  rm -rf "$scratch"
}

mapfile -t packages < <(grep -hEv '^[[:space:]]*(#|$)' "${lists[@]}")
if wants_frontend && ! python3 -m pip --version >/dev/null 2>&1; then packages+=(python3-pip); fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian; install what ${lists[*]} names by the means of your system" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ "${#missing[@]}" -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed already"
  cudnn_frontend
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo: apt-get must install ${missing[*]}" >&2; exit 2; }
  as_root=(sudo)
fi

# A machine may be installing something of its own just now: wait for it.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq "$@" </dev/null
}
echo "setup: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}" >/dev/null
cudnn_frontend
echo "setup: done"
