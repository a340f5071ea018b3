# shellcheck shell=bash disable=SC2034,SC2154
# What cuDNN knows of each card: results/device_properties_N.out is what device/cuda/testdata holds.

most=60
for ((gpu = 0; gpu < gpus; ++gpu)); do
  check "device_properties_$gpu" "$bin/device_properties" "$gpu"
done
