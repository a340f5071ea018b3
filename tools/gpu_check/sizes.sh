# shellcheck shell=bash disable=SC2034,SC2154
# What the phases run: how often, how large, for how long at the most, and what is asked of it. ZEROSHARD_GPU_CHECK_SIZES names another
# file in place of this one: the test on doubles of GPUs has its own.

# Seconds that a check may take at the most, so that one that hangs leaves the others their time. Their programs' own time-out is
# shorter, since what they say then tells more.
kernels_seconds=200
golden_seconds=60
nccl_seconds=75
train_seconds=100
torch_seconds=180
timeout=--timeout=40

stages=(0 1 2 3)
ranks=(2 3 4)
bench="--sizes=4,1048576,67108864"
native_bytes=4,1048576
native_dtypes=(fp32 bf16 fp16)

# Name, layers, heads, width, and at the least: how much of a step its own products and attention take, and how much of the card's dense
# peak it reaches; 0: whatever.
models="
124M 12 12 768 0.75 0
774M 36 20 1280 0.80 0.45
"
shape="--context=1024 --vocab=50304 --steps=20"
# Rows of each rank: 32768 tokens.
batch=32
least_of_torch=1.05
least_of_stage_0=0.95
