// Has the true cuDNN plan and check our graphs for cards that are not here, from properties in the form in which cuDNN writes a device's
// (testdata/README.md). It wants a libcuda to be there, if only the toolkit's, which does nothing.
#include "zeroshard/device/cuda/cudnn_attention.h"

#include <dlfcn.h>

#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace zeroshard::device::cuda {
namespace {

std::string Properties(const std::string& card) {
  std::ifstream file("device/cuda/testdata/" + card + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CudnnAttentionTest : public testing::TestWithParam<std::pair<const char*, int>> {
 protected:
  // By its name inside it is libcuda.so.1, which is what cuDNN asks for.
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      ASSERT_NE(dlopen("external/local_cuda/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    }
    if (CheckCudnnGraphs({}, "", 0).message() == kNoCudnn) {
      GTEST_SKIP() << "cuDNN's plans of our attention graphs for " << GetParam().first
                   << ": this build is without cuDNN's frontend, headers that tools/setup.sh fetches where it finds nvcc";
    }
  }
  absl::Status Check(const AttentionSpec& spec) {
    const auto [card, sm_version] = GetParam();
    return CheckCudnnGraphs(spec, Properties(card), sm_version);
  }
};

TEST_P(CudnnAttentionTest, IsPlannedByCudnnForwardAndBackward) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    for (const AttentionSpec& spec :
         {AttentionSpec{.batch = 32, .heads = 12, .context = 1024, .head_width = 64, .dtype = dtype},
          AttentionSpec{.batch = 8, .heads = 20, .context = 1024, .head_width = 64, .dtype = dtype},
          AttentionSpec{.batch = 1, .heads = 1, .context = 256, .head_width = 128, .dtype = dtype}}) {
      const absl::Status status = Check(spec);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST_P(CudnnAttentionTest, IsNotWhereHeadsAreTooWide) {
  const absl::Status status = Check({.batch = 1, .heads = 1, .context = 256, .head_width = 512, .dtype = DType::kBfloat16});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

INSTANTIATE_TEST_SUITE_P(Cards, CudnnAttentionTest,
                         testing::Values(std::pair("a100", 80), std::pair("h100", 90), std::pair("h200", 90),
                                         std::pair("b200", 100), std::pair("rtx5090", 120)),
                         [](const auto& card) { return std::string(card.param.first); });

}  // namespace
}  // namespace zeroshard::device::cuda
