// device/cuda's kernels beside device/cpu's, on the same bytes: for tests.
//
// Built three times: for the doubles, where each test runs in some orders of queues and of a block's threads; as nvcc compiled it, run by
// //device/cuda/ptx; and for a GPU.
//
// Example:
//   KernelPair pair;
//   const Both x = pair.Make(RandomFloats(n, 1), DType::kBfloat16), y = pair.Make(x.elements(), DType::kBfloat16);
//   pair.Run([&](const Side& s) { s.transformer.Gelu(s.stream, s(x), s(y)); });
//   pair.ExpectSame(y);
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/cuda/cuda_elementwise.h"
#include "zeroshard/device/cuda/cuda_errors.h"
#include "zeroshard/device/cuda/cuda_step_kernels.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/cuda_transformer_kernels.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device::cuda {

// An array of each side.
struct Both {
  Array cpu, cuda;
  int64_t elements() const { return cpu.elements(); }
  Both Slice(int64_t first, int64_t count) const { return {cpu.Slice(first, count), cuda.Slice(first, count)}; }
};

// One side's kernels, and its array of a Both.
struct Side {
  Elementwise& elementwise;
  TransformerKernels& transformer;
  StepKernels& step;
  Stream& stream;
  bool is_cuda;

  Array operator()(const Both& both) const { return is_cuda ? both.cuda : both.cpu; }
};

class KernelPair {
 public:
  KernelPair();
  ~KernelPair();
  KernelPair(const KernelPair&) = delete;
  KernelPair& operator=(const KernelPair&) = delete;

  // `values` rounded to `dtype`, `shift` elements after where an allocation starts.
  Both Make(const std::vector<float>& values, DType dtype, int64_t shift = 0);
  // As they are.
  template <class T>
  Both MakeOf(const std::vector<T>& values, DType dtype = DTypeOf<T>::value) {
    return MakeBytes(values.data(), static_cast<int64_t>(values.size()), dtype, 0);
  }
  // Filled with a pattern that is no result.
  Both Make(int64_t elements, DType dtype, int64_t shift = 0);

  // run(side) for both.
  template <class Body>
  void Run(const Body& run) {
    run(Side{cpu_->elementwise(), cpu_->transformer(), cpu_->step(), *cpu_stream_, false});
    run(Side{elementwise_, transformer_, *step_, *stream_, true});
    ASSERT_TRUE(errors_.status().ok()) << errors_.status();
  }
  cudaStream_t native() { return stream_->native(); }
  Stream& stream() { return *stream_; }
  Device& cpu() { return *cpu_; }
  Stream& cpu_stream() { return *cpu_stream_; }

  std::vector<std::byte> Bytes(const Array& cuda);
  // Byte for byte; on a GPU one NaN is as good as another.
  void ExpectSame(const Both& both);
  // Each |cuda - cpu| <= bound (|cpu| + scale); floats.
  void ExpectNear(const Both& both, double bound, double scale);
  // The same bytes on the doubles; on a GPU, whose fp64 exp, log and pow are its own, within `bound` relative to each value.
  void ExpectSameUpToLibrary(const Both& both, double bound);

 private:
  Both MakeBytes(const void* values, int64_t elements, DType dtype, int64_t shift);

  const std::unique_ptr<Device> cpu_;
  const std::unique_ptr<Stream> cpu_stream_;
  std::vector<Buffer> buffers_;
  std::vector<void*> allocations_;
  CudaErrors errors_;
  std::unique_ptr<CudaStream> stream_;
  CudaElementwise elementwise_;
  CudaTransformerKernels transformer_;
  std::unique_ptr<CudaStepKernels> step_;
};

// The orders in which a test's operations run; on a GPU there is one.
class KernelTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override;
  void TearDown() override;
};
// For INSTANTIATE_TEST_SUITE_P.
int KernelOrders();
// Whether kernels are what nvcc compiled.
bool OnGpu();

inline constexpr DType kActivations[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat16};
inline constexpr DType kFloats[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kFloat64};

}  // namespace zeroshard::device::cuda
