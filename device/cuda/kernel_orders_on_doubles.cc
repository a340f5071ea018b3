// The orders of kernel_pair.h on the doubles: queues that run late, or at random with each block's threads from the last to the first.
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {

int KernelOrders() { return 2; }
bool OnGpu() { return false; }

void KernelTest::SetUp() {
  doubles::SetOrder({.order = GetParam() == 0 ? LateOrder::kLazy : LateOrder::kRandom, .seed = 7});
  doubles::SetThreadsBackwards(GetParam() == 1);
}
void KernelTest::TearDown() { doubles::SetThreadsBackwards(false); }

}  // namespace zeroshard::device::cuda
