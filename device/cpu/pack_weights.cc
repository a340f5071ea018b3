#include "zeroshard/device/cpu/pack_weights.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Of k, in a block.
constexpr int64_t kDepth = 32, kPairs = kDepth / 2;

// A square of 4 rows by 4 pairs, transposed: to[pair][row], rows of `to` 2 * columns apart.
HWY_INLINE void TransposePairs(const uint16_t* from, int64_t stride, uint16_t* to, int64_t columns) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto load = [&](int64_t row) { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + row * stride)); };
  const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const auto low_01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto high_01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto low_23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto high_23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  const auto store = [&](int64_t pair, hn::Vec<decltype(d64)> v) {
    hn::StoreU(v, d64, reinterpret_cast<uint64_t*>(to + pair * 2 * columns));
  };
  store(0, hn::InterleaveLower(d64, low_01, low_23));
  store(1, hn::InterleaveUpper(d64, low_01, low_23));
  store(2, hn::InterleaveLower(d64, high_01, high_23));
  store(3, hn::InterleaveUpper(d64, high_01, high_23));
}

// One block from rows of n, each [k].
void PackRows(const uint16_t* weights, int64_t k, int64_t columns, uint16_t* packed) {
  for (int64_t column = 0; column < columns; column += 4) {
    for (int64_t pair = 0; pair < kPairs; pair += 4) {
      TransposePairs(weights + column * k + 2 * pair, k, packed + (pair * columns + column) * 2, columns);
    }
  }
}

// One block from rows of k, each [n].
void PackColumns(const uint16_t* weights, int64_t n, int64_t columns, uint16_t* packed) {
  const hn::FixedTag<uint16_t, 16> d;
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    const uint16_t* row = weights + 2 * pair * n;
    for (int64_t column = 0; column < columns; column += 16) {
      hn::StoreInterleaved2(hn::LoadU(d, row + column), hn::LoadU(d, row + n + column), d,
                            packed + (pair * columns + column) * 2);
    }
  }
}

}  // namespace

std::optional<PackedLayout> PackedLayoutOf(const dnnl_memory_desc_t& weights) {
  if (weights.format_kind != dnnl_blocked || weights.ndims != 2 || weights.data_type != dnnl_bf16) return std::nullopt;
  const dnnl_blocking_desc_t& b = weights.format_desc.blocking;
  const bool pairs = b.inner_nblks == 3 && b.inner_idxs[0] == 1 && b.inner_idxs[1] == 0 && b.inner_idxs[2] == 1 &&
                     b.inner_blks[0] == kPairs && b.inner_blks[2] == 2 && b.inner_blks[1] % 16 == 0;
  if (!pairs || weights.offset0 != 0 || weights.extra.flags != 0) return std::nullopt;
  if (weights.dims[0] % b.inner_blks[1] != 0 || weights.dims[1] % kDepth != 0) return std::nullopt;
  return PackedLayout{.n = weights.dims[0],
                      .k = weights.dims[1],
                      .columns = b.inner_blks[1],
                      .n_stride = b.strides[0],
                      .k_stride = b.strides[1]};
}

void PackWeights(const PackedLayout& layout, const Bfloat16* weights, bool transposed, Bfloat16* packed, int64_t first,
                 int64_t last) {
  const auto* from = reinterpret_cast<const uint16_t*>(weights);
  auto* to = reinterpret_cast<uint16_t*>(packed);
  for (int64_t j = first; j < last; ++j) {
    for (int64_t i = 0; i < layout.k / kDepth; ++i) {
      uint16_t* const block = to + j * layout.n_stride + i * layout.k_stride;
      const int64_t column = j * layout.columns, depth = i * kDepth;
      if (transposed) {
        PackRows(from + column * layout.k + depth, layout.k, layout.columns, block);
      } else {
        PackColumns(from + depth * layout.n + column, layout.n, layout.columns, block);
      }
    }
  }
}

}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();
