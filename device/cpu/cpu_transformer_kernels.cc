#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
