// The orders of kernel_pair.h for what nvcc compiled, run by //device/cuda/ptx: each block's threads from the first to the last, or from the
// last. Mathematical functions are those of a GPU.
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {

int KernelOrders() { return 2; }
bool OnGpu() { return true; }

void KernelTest::SetUp() { doubles::SetThreadsBackwards(GetParam() == 1); }
void KernelTest::TearDown() { doubles::SetThreadsBackwards(false); }

}  // namespace zeroshard::device::cuda
