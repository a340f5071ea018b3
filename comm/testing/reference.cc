#include "zeroshard/comm/testing/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace zeroshard::comm::testing {
namespace {

using device::DType;

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <class T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(value));
}

float LoadNarrow(DType dtype, const std::byte* at) {
  if (dtype == DType::kFloat32) return Load<float>(at);
  return dtype == DType::kBfloat16 ? FromBfloat16(Load<uint16_t>(at)) : FromFloat16(Load<uint16_t>(at));
}

void StoreNarrow(DType dtype, float value, std::byte* at) {
  if (dtype == DType::kFloat32) return Store(value, at);
  Store(dtype == DType::kBfloat16 ? ToBfloat16(value) : ToFloat16(value), at);
}

template <class T>
T Combine(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    if (a != a) return a;
    if (b != b) return b;
    return op == ReduceOp::kMax ? (a > b ? a : b) : (a < b ? a : b);
  }
  return static_cast<T>(a + b);
}

// Level by level, in place.
template <class T>
T Tree(ReduceOp op, std::vector<T>& level) {
  for (size_t n = level.size(); n > 1; n = (n + 1) / 2) {
    for (size_t i = 0; i < n; i += 2) level[i / 2] = i + 1 < n ? Combine(op, level[i], level[i + 1]) : level[i];
  }
  return level[0];
}

template <class T>
T ReduceAll(ReduceOp op, std::vector<T>& values) {
  const T result = Tree(op, values);
  return op == ReduceOp::kAverage ? result / static_cast<T>(values.size()) : result;
}

// Room for one element of each rank, kept from element to element.
template <class T>
std::vector<T>& Room() {
  thread_local std::vector<T> room;
  room.clear();
  return room;
}

template <class Unsigned, class Signed>
void ReduceIntegers(ReduceOp op, std::span<const std::byte* const> ranks, std::byte* result) {
  if (op == ReduceOp::kSum) {
    Unsigned sum = 0;
    for (const std::byte* at : ranks) sum += Load<Unsigned>(at);
    return Store(sum, result);
  }
  std::vector<Signed>& values = Room<Signed>();
  for (const std::byte* at : ranks) values.push_back(Load<Signed>(at));
  Store(Tree(op, values), result);
}

uint64_t Hash(uint64_t seed, int rank, int64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(rank) * 0xd1b54a32d192ed03 + static_cast<uint64_t>(index);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float FromFloat16(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return mantissa != 0 ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const float size = std::fabs(value);
  if (size >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  // Multiples of the last place of its binade, rounded to even (nearbyint's mode); a carry goes on into the exponent.
  const int exponent = size < std::ldexp(1.0f, -14) ? -14 : std::ilogb(size);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | ((exponent == -14 ? 0 : (exponent + 14) << 10) + units));
}

void ReduceElement(DType in, DType out, ReduceOp op, std::span<const std::byte* const> ranks, std::byte* result) {
  if (in == DType::kInt32) return ReduceIntegers<uint32_t, int32_t>(op, ranks, result);
  if (in == DType::kInt64) return ReduceIntegers<uint64_t, int64_t>(op, ranks, result);
  if (in == DType::kFloat64) {
    std::vector<double>& values = Room<double>();
    for (const std::byte* at : ranks) values.push_back(Load<double>(at));
    return Store(ReduceAll(op, values), result);
  }
  std::vector<float>& values = Room<float>();
  for (const std::byte* at : ranks) values.push_back(LoadNarrow(in, at));
  StoreNarrow(out, ReduceAll(op, values), result);
}

void PutElement(DType dtype, uint64_t seed, int rank, int64_t index, std::byte* element) {
  const uint64_t bits = Hash(seed, rank, index);
  const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
  const double value = (2 * unit - 1) * std::ldexp(1.0, static_cast<int>(bits % 7) - 3);
  switch (dtype) {
    case DType::kInt32:
      return Store(static_cast<int32_t>(bits), element);
    case DType::kInt64:
      return Store(static_cast<int64_t>(bits), element);
    case DType::kUint8:
      return Store(static_cast<uint8_t>(bits), element);
    case DType::kFloat64:
      return Store(value, element);
    case DType::kFloat32:
    case DType::kBfloat16:
    case DType::kFloat16:
      return StoreNarrow(dtype, static_cast<float>(value), element);
  }
}

}  // namespace zeroshard::comm::testing
