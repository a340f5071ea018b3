#include "zeroshard/device/cpu/pack_weights.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

// [n, k] in any place, numbered n * k_size + k.
std::vector<Bfloat16> Numbered(int64_t n, int64_t k, bool transposed) {
  std::vector<Bfloat16> weights(static_cast<size_t>(n * k));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < k; ++i) weights[transposed ? j * k + i : i * n + j].bits = static_cast<uint16_t>(j * k + i);
  }
  return weights;
}

TEST(PackWeightsTest, PairsOfKLieSideBySideInBlocks) {
  for (const int64_t columns : {16, 64}) {
    for (const bool transposed : {false, true}) {
      const int64_t n = 2 * columns, k = 96;
      const PackedLayout layout{.n = n, .k = k, .columns = columns, .n_stride = k * columns, .k_stride = 32 * columns};
      std::vector<Bfloat16> packed(static_cast<size_t>(n * k));
      PackWeights(layout, Numbered(n, k, transposed).data(), transposed, packed.data(), 0, 1);
      PackWeights(layout, Numbered(n, k, transposed).data(), transposed, packed.data(), 1, 2);
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < k; ++i) {
          const int64_t block = j / columns * layout.n_stride + i / 32 * layout.k_stride;
          const int64_t at = block + (i % 32 / 2 * columns + j % columns) * 2 + i % 2;
          ASSERT_EQ(packed[at].bits, static_cast<uint16_t>(j * k + i)) << j << ", " << i;
        }
      }
    }
  }
}

dnnl_memory_desc_t Described(int64_t n, int64_t k, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t description;
  const dnnl_dims_t dims = {n, k};
  EXPECT_EQ(dnnl_memory_desc_init_by_tag(&description, 2, dims, dnnl_bf16, tag), dnnl_success);
  return description;
}

TEST(PackWeightsTest, OtherLayoutsAndPaddedOnesAreLeftToOneDnn) {
  EXPECT_FALSE(PackedLayoutOf(Described(128, 64, dnnl_ab)).has_value());
  EXPECT_FALSE(PackedLayoutOf(Described(100, 64, dnnl_BA16a64b2a)).has_value());
  EXPECT_FALSE(PackedLayoutOf(Described(128, 64, dnnl_BA16a64b2a)).has_value());  // the roles of n and k exchanged
}

}  // namespace
}  // namespace zeroshard::device
