#include "zeroshard/device/cpu/reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "glog/logging.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/reduce.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

// Elements that are reduced before the next are begun: partial results of a block stay in the first-level cache.
constexpr int64_t kBlock = 512;
// Blocks of partial results that wait for their neighbours: one for each level above groups of eight, three smaller groups
// at the end, one in work.
constexpr size_t kLevels = 12;
static_assert(kMaxReduceParts <= 8 << (kLevels - 4));

constexpr int64_t kFew = 4;

template <Combine kCombine, class D>
HWY_INLINE hn::Vec<D> Join(D d, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (kCombine == Combine::kSum) {
    return hn::Add(a, b);
  } else {
    const auto takes_b = kCombine == Combine::kMax ? hn::Lt(a, b) : hn::Lt(b, a);
    const auto chosen = hn::IfThenElse(takes_b, b, a);
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      const auto nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
      return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), nan, chosen);
    } else {
      return chosen;
    }
  }
}

// The tree over kParts parts, a power of two, at element i.
template <Combine kCombine, int kParts, class D, class From>
HWY_INLINE hn::Vec<D> Tree(D d, const From* const* parts, int64_t i) {
  if constexpr (kParts == 1) {
    return LoadWide(d, parts[0] + i);
  } else {
    return Join<kCombine>(d, Tree<kCombine, kParts / 2>(d, parts, i), Tree<kCombine, kParts / 2>(d, parts + kParts / 2, i));
  }
}

// to[i] = the tree over kParts parts. A rest that fills no vector goes through one, padded, so that its bits are the body's; a few
// elements go through a vector of one lane each, which is done before a padded one is.
template <Combine kCombine, int kParts, bool kStream, class From, class Wide>
void TreeInto(const From* const* parts, Wide* to, int64_t count) {
  const hn::ScalableTag<Wide> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = Tree<kCombine, kParts>(d, parts, i), second = Tree<kCombine, kParts>(d, parts, i + lanes);
    if constexpr (kStream) {
      hn::Stream(first, d, to + i);
      hn::Stream(second, d, to + i + lanes);
    } else {
      hn::StoreU(first, d, to + i);
      hn::StoreU(second, d, to + i + lanes);
    }
  }
  const hn::CappedTag<Wide, 1> one;
  for (; i < count && count - i <= kFew; ++i) hn::StoreU(Tree<kCombine, kParts>(one, parts, i), one, to + i);
  while (i < count) {
    const int64_t rest = std::min(lanes, count - i);
    From padded[kParts][HWY_MAX_BYTES / sizeof(Wide)] = {};
    const From* rows[kParts];
    for (int p = 0; p < kParts; ++p) {
      std::memcpy(padded[p], parts[p] + i, static_cast<size_t>(rest) * sizeof(From));
      rows[p] = padded[p];
    }
    Wide result[HWY_MAX_BYTES / sizeof(Wide)];
    hn::StoreU(Tree<kCombine, kParts>(d, rows, 0), d, result);
    std::memcpy(to + i, result, static_cast<size_t>(rest) * sizeof(Wide));
    i += rest;
  }
}

// TreeInto for a number of parts that is 1, 2, 4 or 8.
template <Combine kCombine, bool kStream, class From, class Wide>
void GroupInto(const From* const* parts, size_t group, Wide* to, int64_t count) {
  switch (group) {
    case 1:
      return TreeInto<kCombine, 1, kStream>(parts, to, count);
    case 2:
      return TreeInto<kCombine, 2, kStream>(parts, to, count);
    case 4:
      return TreeInto<kCombine, 4, kStream>(parts, to, count);
    default:
      return TreeInto<kCombine, 8, kStream>(parts, to, count);
  }
}

// Joins the two uppermost of `top` partial results, of sizes[] parts each; how many are left.
template <Combine kCombine, class Wide>
size_t JoinTop(Wide (*stack)[kBlock], size_t* sizes, size_t top, int64_t count) {
  const Wide* const pair[2] = {stack[top - 2], stack[top - 1]};
  sizes[top - 2] += sizes[top - 1];
  TreeInto<kCombine, 2, false>(pair, stack[top - 2], count);
  return top - 1;
}

// The whole tree of a block, count <= kBlock, into stack[0]. Level by level pairing is a binary counter over groups: equal
// neighbours join as soon as both are there, what is left over joins from the right at the end.
template <Combine kCombine, class From, class Wide>
void BlockInto(std::span<const From* const> parts, Wide (*stack)[kBlock], int64_t count) {
  size_t sizes[kLevels];
  size_t top = 0;
  for (size_t begin = 0; begin < parts.size(); begin += sizes[top - 1]) {
    while (top > 1 && sizes[top - 2] == sizes[top - 1]) top = JoinTop<kCombine>(stack, sizes, top, count);
    const size_t group = std::min<size_t>(8, std::bit_floor(parts.size() - begin));
    sizes[top] = group;
    GroupInto<kCombine, false>(parts.data() + begin, group, stack[top], count);
    ++top;
  }
  while (top > 1) top = JoinTop<kCombine>(stack, sizes, top, count);
}

// out[i] = from[i] / divisor, rounded once.
template <class Wide, class To>
void Finish(const Wide* from, double divisor, To* out, int64_t count, bool stream) {
  const hn::ScalableTag<Wide> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Wide by = static_cast<Wide>(divisor);
  int64_t i = 0;
  if constexpr (std::is_floating_point_v<Wide>) {
    const auto divide_by = hn::Set(d, by);
    for (; i + lanes <= count; i += lanes) {
      auto v = hn::LoadU(d, from + i);
      if (divisor != 1) v = hn::Div(v, divide_by);
      if (stream) {
        StreamNarrow(v, d, out + i);
      } else {
        StoreNarrow(v, d, out + i);
      }
    }
  }
  for (; i < count; ++i) out[i] = Narrow<To>(divisor != 1 ? static_cast<Wide>(from[i] / by) : from[i]);
}

bool CanStream(const void* out) { return reinterpret_cast<uintptr_t>(out) % 64 == 0; }

template <Combine kCombine, class From, class To>
void ReduceTyped(const ReduceSpec& spec, std::span<const From* const> parts, std::span<void* const> outs, int64_t count) {
  using Wide = typename WideOf<From>::type;
  const bool stream = spec.stores == Stores::kStreaming && std::all_of(outs.begin(), outs.end(), CanStream);
  if constexpr (std::is_same_v<Wide, To>) {
    if (outs.size() == 1 && spec.divisor == 1 && parts.size() <= 8 && std::has_single_bit(parts.size())) {
      To* const out = static_cast<To*>(outs[0]);
      if (stream) return GroupInto<kCombine, true>(parts.data(), parts.size(), out, count);
      return GroupInto<kCombine, false>(parts.data(), parts.size(), out, count);
    }
  }
  alignas(64) Wide stack[kLevels][kBlock];
  const From* moved[kMaxReduceParts];
  const bool divide_first = outs.size() > 1 && spec.divisor != 1;  // in the type in which it is divided anyway
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t block = std::min(kBlock, count - i);
    for (size_t p = 0; p < parts.size(); ++p) moved[p] = parts[p] + i;
    BlockInto<kCombine, From, Wide>({moved, parts.size()}, stack, block);
    if (divide_first) Finish(stack[0], spec.divisor, stack[0], block, /*stream=*/false);
    for (void* out : outs) Finish(stack[0], divide_first ? 1 : spec.divisor, static_cast<To*>(out) + i, block, stream);
  }
}

template <class From, class To>
void ReduceAs(const ReduceSpec& spec, std::span<const From* const> parts, std::span<void* const> outs, int64_t count) {
  switch (spec.combine) {
    case Combine::kSum:
      return ReduceTyped<Combine::kSum, From, To>(spec, parts, outs, count);
    case Combine::kMax:
      return ReduceTyped<Combine::kMax, From, To>(spec, parts, outs, count);
    case Combine::kMin:
      return ReduceTyped<Combine::kMin, From, To>(spec, parts, outs, count);
  }
}

template <class T>
constexpr bool kUpToFp32 = std::is_same_v<typename WideOf<T>::type, float>;

void Reduce(const ReduceSpec& spec, std::span<const void* const> parts, std::span<void* const> outs, int64_t count) {
  VisitDType(spec.in, [&]<class From>(TypeTag<From>) {
    VisitDType(spec.out, [&]<class To>(TypeTag<To>) {
      if constexpr (std::is_same_v<From, To> || (kUpToFp32<From> && kUpToFp32<To>)) {
        const From* typed[kMaxReduceParts];
        for (size_t p = 0; p < parts.size(); ++p) typed[p] = static_cast<const From*>(parts[p]);
        ReduceAs<From, To>(spec, {typed, parts.size()}, outs, count);
      }
    });
  });
  if (spec.stores == Stores::kStreaming) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Reduce);

namespace {

constexpr int64_t kMostOfFew = 4;

// Two parts of a few elements: done before the way to the vectors is found.
template <class T>
void AddFew(const ReduceSpec& spec, const void* const* parts, void* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T sum = static_cast<const T*>(parts[0])[i] + static_cast<const T*>(parts[1])[i];
    static_cast<T*>(out)[i] = spec.divisor != 1 ? sum / static_cast<T>(spec.divisor) : sum;
  }
}

}  // namespace

void ReduceParts(const ReduceSpec& spec, std::span<const void* const> parts, void* out, int64_t count) {
  if (parts.size() == 2 && count <= kMostOfFew && spec.combine == Combine::kSum && spec.in == spec.out) {
    if (spec.in == DType::kFloat32) return AddFew<float>(spec, parts.data(), out, count);
    if (spec.in == DType::kFloat64) return AddFew<double>(spec, parts.data(), out, count);
  }
  ReduceParts(spec, parts, std::span<void* const>(&out, 1), count);
}

void ReduceParts(const ReduceSpec& spec, std::span<const void* const> parts, std::span<void* const> outs, int64_t count) {
  CHECK(CanReduce(spec)) << "no reduction from " << Name(spec.in) << " to " << Name(spec.out);
  CHECK(!parts.empty() && parts.size() <= static_cast<size_t>(kMaxReduceParts)) << parts.size() << " parts";
  HWY_DYNAMIC_DISPATCH(Reduce)(spec, parts, outs, count);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE
