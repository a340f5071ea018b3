// The order of kernel_pair.h on a GPU: the GPU's.
#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {

int KernelOrders() { return 1; }
bool OnGpu() { return true; }

void KernelTest::SetUp() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU, or no NVIDIA driver";
}
void KernelTest::TearDown() {}

}  // namespace zeroshard::device::cuda
