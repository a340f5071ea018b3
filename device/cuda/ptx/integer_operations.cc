#include <algorithm>
#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/ptx/values.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// Arithmetic wraps.
template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
template <class T>
T Wrapped(unsigned __int128 value) {
  return static_cast<T>(value);
}
template <class T>
constexpr int kBits = 8 * sizeof(T);

template <class T>
void CheckDivisor(T divisor) {
  if (divisor == 0) EndTest("PTX divides a whole number by zero");
}

template <class T>
void AddArithmetic(Operations& ops, const std::string& type) {
  using W = unsigned __int128;
  ops["add." + type] = Of<T, T>([](T a, T b) { return Wrapped<T>(W(a) + W(b)); });
  ops["sub." + type] = Of<T, T>([](T a, T b) { return Wrapped<T>(W(a) - W(b)); });
  ops["neg." + type] = Of<T>([](T a) { return Wrapped<T>(-W(a)); });
  ops["abs." + type] = Of<T>([](T a) { return Wrapped<T>(a < 0 ? -W(a) : W(a)); });
  ops["mul.lo." + type] = Of<T, T>([](T a, T b) { return Wrapped<T>(W(a) * W(b)); });
  ops["mad.lo." + type] = Of<T, T, T>([](T a, T b, T c) { return Wrapped<T>(W(a) * W(b) + W(c)); });
  ops["mul.hi." + type] = Of<T, T>([](T a, T b) { return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> kBits<T>); });
  ops["div." + type] = Of<T, T>([](T a, T b) {
    CheckDivisor(b);
    return static_cast<T>(Wide<T>(a) / Wide<T>(b));
  });
  ops["rem." + type] = Of<T, T>([](T a, T b) {
    CheckDivisor(b);
    return static_cast<T>(Wide<T>(a) % Wide<T>(b));
  });
  ops["min." + type] = Of<T, T>([](T a, T b) { return std::min(a, b); });
  ops["max." + type] = Of<T, T>([](T a, T b) { return std::max(a, b); });
  ops["shr." + type] =
      Of<T, uint32_t>([](T a, uint32_t by) { return static_cast<T>(Wide<T>(a) >> std::min<uint32_t>(by, kBits<T>)); });
  if constexpr (sizeof(T) < 8) {
    using Twice = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    ops["mul.wide." + type] = Of<T, T>([](T a, T b) { return Twice{a} * Twice{b}; });
  }
}

template <class T>
void AddBits(Operations& ops, const std::string& type) {
  ops["and." + type] = Of<T, T>([](T a, T b) { return static_cast<T>(a & b); });
  ops["or." + type] = Of<T, T>([](T a, T b) { return static_cast<T>(a | b); });
  ops["xor." + type] = Of<T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
  ops["not." + type] = Of<T>([](T a) { return static_cast<T>(~a); });
  ops["shl." + type] =
      Of<T, uint32_t>([](T a, uint32_t by) { return by >= kBits<T> ? T{0} : static_cast<T>(uint64_t{a} << by); });
  ops["shr." + type] =
      Of<T, uint32_t>([](T a, uint32_t by) { return by >= kBits<T> ? T{0} : static_cast<T>(uint64_t{a} >> by); });
  ops["clz." + type] = Of<T>([](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
}

template <class T>
void AddMoves(Operations& ops, const std::string& type) {
  ops["mov." + type] = Of<T>([](T a) { return a; });
  ops["selp." + type] = Of<T, T, bool>([](T a, T b, bool first) { return first ? a : b; });
}

template <class T>
void AddComparisons(Operations& ops, const std::string& type) {
  ops["setp.eq." + type] = Of<T, T>([](T a, T b) { return a == b; });
  ops["setp.ne." + type] = Of<T, T>([](T a, T b) { return a != b; });
  ops["setp.lt." + type] = Of<T, T>([](T a, T b) { return a < b; });
  ops["setp.le." + type] = Of<T, T>([](T a, T b) { return a <= b; });
  ops["setp.gt." + type] = Of<T, T>([](T a, T b) { return a > b; });
  ops["setp.ge." + type] = Of<T, T>([](T a, T b) { return a >= b; });
}

// to[0] = the low word of `sum`, whose 33rd bit is the carry, or the borrow.
template <bool kKeeps>
void PutCarrying(uint64_t* r, const Instruction& i, uint64_t sum) {
  r[i.to[0]] = static_cast<uint32_t>(sum);
  if (kKeeps) r[kCarryRegister] = sum >> 32 & 1;
}

// kTakes: adds the carry; kKeeps: writes it.
template <bool kTakes, bool kKeeps>
void AddCarrying(Operations& ops, const std::string& c, const std::string& cc) {
  ops["add" + c + cc + ".u32"] = [](uint64_t* r, const Instruction& i) {
    const uint64_t carry = kTakes ? r[kCarryRegister] : 0;
    PutCarrying<kKeeps>(r, i, uint64_t{Get<uint32_t>(r, i.from[0])} + Get<uint32_t>(r, i.from[1]) + carry);
  };
  ops["sub" + c + cc + ".u32"] = [](uint64_t* r, const Instruction& i) {
    const uint64_t borrow = kTakes ? r[kCarryRegister] : 0;
    PutCarrying<kKeeps>(r, i, uint64_t{Get<uint32_t>(r, i.from[0])} - Get<uint32_t>(r, i.from[1]) - borrow);
  };
  const auto multiply = [](auto shift) -> Compute {
    return [](uint64_t* r, const Instruction& i) {
      const uint64_t product = uint64_t{Get<uint32_t>(r, i.from[0])} * Get<uint32_t>(r, i.from[1]);
      const uint64_t carry = kTakes ? r[kCarryRegister] : 0;
      PutCarrying<kKeeps>(
          r, i, static_cast<uint32_t>(product >> decltype(shift)::value) + uint64_t{Get<uint32_t>(r, i.from[2])} + carry);
    };
  };
  ops["mad" + c + ".lo" + cc + ".u32"] = multiply(std::integral_constant<int, 0>());
  ops["mad" + c + ".hi" + cc + ".u32"] = multiply(std::integral_constant<int, 32>());
}

uint32_t InsertBits(uint32_t bits, uint32_t into, uint32_t at, uint32_t count) {
  at &= 255;
  count = std::min<uint32_t>(count & 255, at < 32 ? 32 - at : 0);
  const auto mask = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << std::min<uint32_t>(at, 32));
  return (into & ~mask) | (static_cast<uint32_t>(uint64_t{bits} << std::min<uint32_t>(at, 32)) & mask);
}

uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t selectors) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = selectors >> (4 * i) & 15;
    const auto byte = static_cast<uint8_t>(bytes >> (8 * (selector & 7)));
    const uint8_t sign = byte & 128 ? 255 : 0;
    result |= uint32_t{selector & 8 ? sign : byte} << (8 * i);
  }
  return result;
}

// Words of several parts, the first the lowest. "pack" and "unpack" are this machine's names of mov with braces.
template <class Whole, class Part>
void AddPacking(Operations& ops, const std::string& type) {
  static constexpr size_t kParts = sizeof(Whole) / sizeof(Part);
  ops["pack" + std::to_string(kParts) + "." + type] = [](uint64_t* r, const Instruction& i) {
    uint64_t whole = 0;
    for (size_t k = 0; k < kParts; ++k) whole |= uint64_t{Get<Part>(r, i.from[k])} << (k * kBits<Part>);
    r[i.to[0]] = whole;
  };
  ops["unpack" + std::to_string(kParts) + "." + type] = [](uint64_t* r, const Instruction& i) {
    const auto whole = Get<Whole>(r, i.from[0]);
    for (size_t k = 0; k < kParts; ++k) r[i.to[k]] = static_cast<Part>(whole >> (k * kBits<Part>));
  };
}

}  // namespace

void AddIntegers(Operations& ops) {
  ForEachInteger([&]<class T>(T, const std::string& type) {
    AddArithmetic<T>(ops, type);
    AddMoves<T>(ops, type);
    AddComparisons<T>(ops, type);
    if constexpr (std::is_unsigned_v<T>) {
      const std::string bits = "b" + type.substr(1);
      AddBits<T>(ops, bits);
      AddMoves<T>(ops, bits);
      AddComparisons<T>(ops, bits);
    }
  });
  AddMoves<bool>(ops, "pred");
  ops["and.pred"] = Of<bool, bool>([](bool a, bool b) { return a && b; });
  ops["or.pred"] = Of<bool, bool>([](bool a, bool b) { return a || b; });
  ops["xor.pred"] = Of<bool, bool>([](bool a, bool b) { return a != b; });
  ops["not.pred"] = Of<bool>([](bool a) { return !a; });
  AddCarrying<false, true>(ops, "", ".cc");
  AddCarrying<true, true>(ops, "c", ".cc");
  AddCarrying<true, false>(ops, "c", "");
  ops["bfi.b32"] = Of<uint32_t, uint32_t, uint32_t, uint32_t>(
      [](uint32_t bits, uint32_t into, uint32_t at, uint32_t count) { return InsertBits(bits, into, at, count); });
  ops["prmt.b32"] = Of<uint32_t, uint32_t, uint32_t>(
      [](uint32_t low, uint32_t high, uint32_t selectors) { return PermuteBytes(low, high, selectors); });
  AddPacking<uint32_t, uint16_t>(ops, "b32");
  AddPacking<uint64_t, uint32_t>(ops, "b64");
  AddPacking<uint64_t, uint16_t>(ops, "b64");
  // Device memory has one kind of address here.
  ops["cvta.to.global.u64"] = ops["mov.u64"];
}

}  // namespace zeroshard::device::cuda::ptx
