#include "zeroshard/device/cuda/kernel_pair.h"

#include <cmath>
#include <cstring>

#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cuda/cuda_needs.h"

namespace zeroshard::device::cuda {
namespace {

// Read where an element is not written.
constexpr int kUnwritten = 0x5a;

double ValueAt(const std::byte* bytes, DType dtype, int64_t i) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kFloat32:
      return read(float{});
    case DType::kFloat64:
      return read(double{});
    case DType::kBfloat16:
      return ToFloat(read(Bfloat16{}));
    default:
      return ToFloat(read(Float16{}));
  }
}

}  // namespace

KernelPair::KernelPair() : cpu_(MakeCpuDevice()), cpu_stream_(cpu_->MakeStream(StreamKind::kCompute)), errors_("device 0") {
  stream_ = std::make_unique<CudaStream>(*cpu_, /*ordinal=*/0, StreamKind::kCompute, errors_);
  step_ = std::make_unique<CudaStepKernels>(Make(kStepScratchBytes, DType::kUint8).cuda);
}

KernelPair::~KernelPair() {
  stream_->Synchronize();
  EXPECT_TRUE(errors_.status().ok()) << errors_.status();
  for (void* address : allocations_) cudaFree(address);
}

Both KernelPair::MakeBytes(const void* values, int64_t elements, DType dtype, int64_t shift) {
  const int64_t before = shift * SizeOf(dtype), bytes = elements * SizeOf(dtype);
  absl::StatusOr<Buffer> buffer = cpu_->Allocate(before + bytes + 1, Use::kData, "test");
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  void* address = nullptr;
  native();
  EXPECT_EQ(cudaMalloc(&address, static_cast<size_t>(before + bytes + 1)), cudaSuccess);
  allocations_.push_back(address);
  const Both both{Array(buffer->array(DType::kUint8).address(), shift + elements, dtype).Slice(shift, elements),
                  Array(reinterpret_cast<uint64_t>(address), shift + elements, dtype).Slice(shift, elements)};
  buffers_.push_back(*std::move(buffer));
  if (bytes == 0) return both;
  const auto size = static_cast<size_t>(bytes);
  std::memcpy(reinterpret_cast<void*>(both.cpu.address()), values, size);
  EXPECT_EQ(cudaMemcpyAsync(reinterpret_cast<void*>(both.cuda.address()), values, size, cudaMemcpyHostToDevice, native()),
            cudaSuccess);
  stream_->Synchronize();
  return both;
}

Both KernelPair::Make(const std::vector<float>& values, DType dtype, int64_t shift) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto write = [&](auto value) { std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value); };
    if (dtype == DType::kFloat32) write(values[i]);
    if (dtype == DType::kFloat64) write(static_cast<double>(values[i]));
    if (dtype == DType::kBfloat16) write(ToBfloat16(values[i]));
    if (dtype == DType::kFloat16) write(ToFloat16(values[i]));
  }
  return MakeBytes(bytes.data(), static_cast<int64_t>(values.size()), dtype, shift);
}

Both KernelPair::Make(int64_t elements, DType dtype, int64_t shift) {
  const std::vector<std::byte> bytes(static_cast<size_t>(elements * SizeOf(dtype)), std::byte{kUnwritten});
  return MakeBytes(bytes.data(), elements, dtype, shift);
}

std::vector<std::byte> KernelPair::Bytes(const Array& cuda) {
  std::vector<std::byte> bytes(static_cast<size_t>(cuda.bytes()));
  if (bytes.empty()) return bytes;
  EXPECT_EQ(cudaMemcpyAsync(bytes.data(), reinterpret_cast<const void*>(cuda.address()), bytes.size(),
                            cudaMemcpyDeviceToHost, native()),
            cudaSuccess);
  stream_->Synchronize();
  return bytes;
}

void KernelPair::ExpectSame(const Both& both) {
  const std::vector<std::byte> got = Bytes(both.cuda);
  const auto* want = reinterpret_cast<const std::byte*>(both.cpu.address());
  const int64_t size = SizeOf(both.cpu.dtype());
  for (int64_t i = 0; i < both.cpu.elements(); ++i) {
    if (std::memcmp(got.data() + i * size, want + i * size, static_cast<size_t>(size)) == 0) continue;
    if (!IsFloat(both.cpu.dtype())) {
      FAIL() << "element " << i << " of " << both.cpu.elements() << " differs";
    }
    // Which NaN an operation gives is the processor's own.
    if (OnGpu() && std::isnan(ValueAt(got.data(), both.cpu.dtype(), i)) && std::isnan(ValueAt(want, both.cpu.dtype(), i)))
      continue;
    FAIL() << "element " << i << " of " << both.cpu.elements() << ": " << ValueAt(got.data(), both.cpu.dtype(), i)
           << " in place of " << ValueAt(want, both.cpu.dtype(), i);
  }
}

void KernelPair::ExpectNear(const Both& both, double bound, double scale) {
  const std::vector<std::byte> got = Bytes(both.cuda);
  const auto* want = reinterpret_cast<const std::byte*>(both.cpu.address());
  for (int64_t i = 0; i < both.cpu.elements(); ++i) {
    const double expected = ValueAt(want, both.cpu.dtype(), i);
    ASSERT_NEAR(ValueAt(got.data(), both.cpu.dtype(), i), expected, bound * (std::abs(expected) + scale)) << "element " << i;
  }
}

void KernelPair::ExpectSameUpToLibrary(const Both& both, double bound) {
  OnGpu() ? ExpectNear(both, bound, 0) : ExpectSame(both);
}

}  // namespace zeroshard::device::cuda
