// ZS_HOST_DEVICE: marks a plain function that kernels of device/cuda call too. Only nvcc sees more than a plain function.
//
// Example:
//   ZS_HOST_DEVICE inline double Square(double x) { return x * x; }
#pragma once

#if defined(__CUDACC__)
#define ZS_HOST_DEVICE __host__ __device__
#else
#define ZS_HOST_DEVICE
#endif
