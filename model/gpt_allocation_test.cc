// Counts what operator new gives outside of libraries' calls: its own test, since it replaces operator new for the whole program.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <tuple>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/vendor_scope.h"
#include "zeroshard/model/random_run.h"

namespace {
std::atomic<int64_t> allocations{0};

void* Count(std::size_t bytes) {
  if (!zeroshard::device::VendorScope::Active()) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
}  // namespace

void* operator new(std::size_t bytes) { return Count(bytes); }
void* operator new[](std::size_t bytes) { return Count(bytes); }
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete[](void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { std::free(pointer); }

namespace zeroshard::model {
namespace {

using device::DType;

TEST(GptAllocationTest, AMicroBatch_AllocatesNothing) {
  for (const auto& [threads, dtype, every] : {std::tuple(1, DType::kFloat32, 0), std::tuple(2, DType::kFloat32, 1),
                                              std::tuple(1, DType::kBfloat16, 1), std::tuple(2, DType::kFloat16, 0)}) {
    const auto device = device::MakeCpuDevice({.threads = threads});
    const GptOptions options{.layers = 2,
                             .heads = 2,
                             .width = 32,
                             .context = 70,
                             .vocab = 600,
                             .batch = 4,
                             .dtype = dtype,
                             .gradient_dtype = dtype,
                             .checkpoint_every = every,
                             .checkpoints_on_host = every == 1};
    RandomRun run(*device, options, 4);
    MicroBatch evaluation = run.micro_batch();
    evaluation.purpose = Purpose::kEvaluate;
    int64_t before = 0;
    for (int step = 0; step < 4; ++step) {
      if (step == 2) before = allocations;
      EXPECT_TRUE(run.rank().Run(run.micro_batch(), device::WriteMode::kOverwrite).ok());
      EXPECT_TRUE(run.rank().Run(run.micro_batch(), device::WriteMode::kAccumulate).ok());
      EXPECT_TRUE(run.rank().Run(evaluation, device::WriteMode::kOverwrite).ok());
    }
    EXPECT_EQ(allocations - before, 0) << threads << " threads, " << device::Name(dtype);
    EXPECT_GT(before, 0);
  }
}

}  // namespace
}  // namespace zeroshard::model
