// Device arrays from host values and back, for tests of kernels.
//
// Example:
//   TestArrays arrays(*device);
//   Array x = arrays.Make({1, 2, 3});
//   kernels.Gelu(arrays.stream(), x, y);
//   EXPECT_EQ(arrays.Read(y), want);
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device {

class TestArrays {
 public:
  explicit TestArrays(Device& device) : device_(device), stream_(device.MakeStream(StreamKind::kCompute)) {}

  Stream& stream() { return *stream_; }
  TransformerKernels& kernels() { return device_.transformer(); }

  template <class T>
  Array Make(const std::vector<T>& values) {
    const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
    auto buffer = device_.Allocate(bytes, Use::kData, "test");
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    const Array array(buffer->array(DType::kUint8).address(), static_cast<int64_t>(values.size()), DTypeFor<T>());
    buffers_.push_back(*std::move(buffer));
    device_.CopyFromHost(*stream_, values.data(), array);
    stream_->Synchronize();
    return array;
  }
  Array Empty(int64_t elements) { return Make(std::vector<float>(static_cast<size_t>(elements), -77.0f)); }
  // The same in fp32, bf16 or fp16; values are rounded.
  Array Make(const std::vector<float>& values, DType dtype) {
    const Array wide = Make(values);
    if (dtype == DType::kFloat32) return wide;
    const Array narrow = Make(std::vector<uint16_t>(values.size())).As(dtype);
    device_.elementwise().Convert(*stream_, wide, narrow);
    return narrow;
  }
  Array Empty(int64_t elements, DType dtype) {
    return Make(std::vector<float>(static_cast<size_t>(elements), -77.0f), dtype);
  }

  template <class T = float>
  std::vector<T> Read(const Array& array) {
    std::vector<T> values(static_cast<size_t>(array.elements()));
    device_.CopyToHost(*stream_, array, values.data());
    stream_->Synchronize();
    return values;
  }
  // As fp32, whatever it is.
  std::vector<float> ReadWide(const Array& array) {
    if (array.dtype() == DType::kFloat32) return Read(array);
    const Array wide = Empty(array.elements());
    device_.elementwise().Convert(*stream_, array, wide);
    return Read(wide);
  }

 private:
  template <class T>
  static constexpr DType DTypeFor() {
    if constexpr (std::is_same_v<T, uint16_t>) {
      return DType::kBfloat16;
    } else {
      return DTypeOf<T>::value;
    }
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

// Each |got - want| <= bound (1 + |want|).
inline void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i]))) << "element " << i;
}

inline std::vector<float> RandomFloats(int64_t elements, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& value : values) value = normal(random);
  return values;
}

// `values` as `dtype` holds them.
inline std::vector<float> Rounded(std::vector<float> values, DType dtype) {
  for (float& value : values) {
    if (dtype == DType::kBfloat16) value = ToFloat(ToBfloat16(value));
    if (dtype == DType::kFloat16) value = ToFloat(ToFloat16(value));
  }
  return values;
}

// The most that rounding to `dtype` changes a value by, relative to it; of fp32, which tests' bounds hold already, 0.
inline double HalfUlp(DType dtype) {
  if (dtype == DType::kBfloat16) return 0x1p-8;
  return dtype == DType::kFloat16 ? 0x1p-11 : 0;
}

}  // namespace zeroshard::device
