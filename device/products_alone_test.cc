// On every device that the target links.
#include "zeroshard/device/products_alone.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::device {
namespace {

constexpr int64_t kM = 20, kK = 30, kN = 10;

class ProductsAloneTest : public testing::TestWithParam<TestDevice> {
 protected:
  Array Make(int64_t elements, DType dtype = DType::kFloat32) {
    buffers_.push_back(products_.Allocate(elements * SizeOf(dtype), Use::kData, "test").value());
    return buffers_.back().array(dtype);
  }

  const std::unique_ptr<Device> device_ = GetParam().make();
  ProductsAlone products_{*device_};
  TestArrays arrays_{*device_};
  std::vector<Buffer> buffers_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ProductsAloneTest, testing::ValuesIn(TestDevices()), NameOfTestDevice);

TEST_P(ProductsAloneTest, AProductIsTheDevicesOwn) {
  const GemmSpec spec{.m = kM, .k = kK, .n = kN};
  const Array a = Make(kM * kK), b = Make(kK * kN), c = Make(kM * kN), want = Make(kM * kN);
  const auto gemm = products_.PlanGemm(spec), inner = device_->PlanGemm(spec);
  ASSERT_TRUE(gemm.ok() && inner.ok());
  const auto stream = products_.MakeStream(StreamKind::kCompute);
  (*gemm)->Run(*stream, a, b, c);
  stream->Synchronize();
  (*inner)->Run(arrays_.stream(), a, b, want);
  EXPECT_EQ(arrays_.Read(c), arrays_.Read(want));
}

TEST_P(ProductsAloneTest, MemoryHoldsRandomNumbersOfOneMagnitudeWhichKernelsAndCopiesLeaveAlone) {
  const Array x = Make(1000, DType::kBfloat16), y = Make(501);
  const std::vector<float> before = arrays_.ReadWide(x);
  const auto stream = products_.MakeStream(StreamKind::kCompute);
  const std::vector<uint16_t> zeros(1000);
  products_.CopyFromHost(*stream, zeros.data(), x);
  products_.elementwise().Fill(*stream, x, 0);
  products_.transformer().Gelu(*stream, x, x);
  stream->Synchronize();
  EXPECT_EQ(arrays_.ReadWide(x), before);
  std::vector<float> all = arrays_.Read(y);
  all.insert(all.end(), before.begin(), before.end());
  int negative = 0;
  for (const float value : all) {
    ASSERT_GE(std::abs(value), 0x1p-5f);
    ASSERT_LE(std::abs(value), 0x1p-4f);
    negative += value < 0 ? 1 : 0;
  }
  EXPECT_GT(negative, 500);
  EXPECT_LT(negative, 1000);
}

}  // namespace
}  // namespace zeroshard::device
