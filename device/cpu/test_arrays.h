// Device arrays from host values and back, for tests of kernels.
//
// Example:
//   TestArrays arrays(*device);
//   Array x = arrays.Make({1, 2, 3});
//   kernels.Gelu(arrays.stream(), x, y);
//   EXPECT_EQ(arrays.Read(y), want);
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
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
    const Array array = buffer->array(DTypeOf<T>::value);
    buffers_.push_back(*std::move(buffer));
    device_.CopyFromHost(*stream_, values.data(), array);
    stream_->Synchronize();
    return array;
  }
  Array Empty(int64_t elements) { return Make(std::vector<float>(static_cast<size_t>(elements), -77.0f)); }

  template <class T = float>
  std::vector<T> Read(const Array& array) {
    std::vector<T> values(static_cast<size_t>(array.elements()));
    device_.CopyToHost(*stream_, array, values.data());
    stream_->Synchronize();
    return values;
  }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

inline std::vector<float> RandomFloats(int64_t elements, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace zeroshard::device
