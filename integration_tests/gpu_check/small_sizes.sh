# tools/gpu_check/sizes.sh for doubles of GPUs, on a busy machine: small, and nothing is asked of any time.
kernels_seconds=120
golden_seconds=120
nccl_seconds=120
train_seconds=120
torch_seconds=120
timeout=--timeout=100

stages=(0 3)
ranks=(2 3)
bench="--sizes=4,1000 --iterations=5"
native_bytes=4,1000
native_dtypes=(bf16)

models="
tiny 1 2 16 0 0
small 2 2 32 0 0
"
shape="--context=8 --vocab=64 --steps=3"
batch=2
least_of_torch=0
least_of_stage_0=0
