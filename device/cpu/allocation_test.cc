// Counts operator new on marked threads outside vendor calls, where oneDNN may run on libgomp's threads: a test of its own, since it replaces the allocator.
#include <atomic>
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/reduce.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/vendor_scope.h"

namespace {

std::atomic<int64_t> ours{0};

void* Count(std::size_t bytes) {
  using zeroshard::device::OurThread, zeroshard::device::VendorScope;
  if (OurThread::owner() != nullptr && !VendorScope::Active()) ++ours;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return Count(bytes); }
void* operator new[](std::size_t bytes) { return Count(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace zeroshard::device {
namespace {

class AllocationTest : public testing::TestWithParam<int> {};

TEST_P(AllocationTest, OperationsAllocateNothing) {
  constexpr int64_t kSide = 256;
  auto device = MakeCpuDevice({.threads = GetParam()});
  auto stream = device->MakeStream(StreamKind::kCompute);
  auto event = device->MakeEvent();
  const Buffer memory = device->Allocate(16 * kSide * kSide, Use::kData, "data").value();
  const Array all = memory.array(DType::kFloat32);
  const Array x = all.Slice(0, kSide * kSide), y = all.Slice(kSide * kSide, kSide * kSide);
  const Array z = all.Slice(2 * kSide * kSide, kSide * kSide);
  auto gemm = device->PlanGemm({.m = kSide, .k = kSide, .n = kSide, .transpose_b = true, .accumulate = true}).value();
  const auto narrow = [&](DType dtype) {
    return device->PlanGemm({.m = kSide, .k = kSide, .n = kSide, .transpose_b = true, .input = dtype}).value();
  };
  auto bf16 = narrow(DType::kBfloat16), fp16 = narrow(DType::kFloat16);
  const auto step = [&] {
    event->Expect();
    device->elementwise().Fill(*stream, x, 0.5);
    device->elementwise().Copy(*stream, x, y);
    device->elementwise().Accumulate(*stream, x, y);
    device->elementwise().Scale(*stream, y, 0.25);
    device->elementwise().Convert(*stream, y, z.As(DType::kBfloat16).Slice(0, kSide * kSide));
    gemm->Run(*stream, x, y, z);
    for (Gemm* product : {bf16.get(), fp16.get()}) {
      const Array a = x.As(product->spec().input).Slice(0, kSide * kSide);
      product->Run(*stream, a, a, z);
    }
    float host[4];
    device->CopyToHost(*stream, z.Slice(0, 4), host);
    device->CopyFromHost(*stream, host, z.Slice(0, 4));
    const void* parts[] = {device->HostAddress(x), device->HostAddress(y), device->HostAddress(z)};
    ReduceParts({}, parts, device->HostAddress(z), z.elements());
    stream->Record(*event);
    stream->Wait(*event);
  };
  step();
  OurThread::Begin(device.get());
  const int64_t before = ours, charges = device->ledger().charges();
  for (int i = 0; i < 10; ++i) step();
  OurThread::Begin(nullptr);
  EXPECT_EQ(ours - before, 0);
  EXPECT_EQ(device->ledger().charges(), charges);
  EXPECT_TRUE(device->status().ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, AllocationTest, testing::Values(1, 2));

}  // namespace
}  // namespace zeroshard::device
