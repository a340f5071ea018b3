// The element types that devices, collectives and kernels speak of.
//
// Example:
//   SizeOf(DType::kBfloat16);              // 2
//   Name(DType::kFloat32);                 // "fp32"
//   ParseDType("bf16").value();            // DType::kBfloat16
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zeroshard::device {

enum class DType : uint8_t { kFloat32, kFloat64, kBfloat16, kFloat16, kInt32, kInt64, kUint8 };

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBfloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBfloat16 || dtype == DType::kFloat16;
}

// As flags and messages write it: "fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint8".
constexpr std::string_view Name(DType dtype) {
  constexpr std::string_view kNames[] = {"fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint8"};
  return kNames[static_cast<int>(dtype)];
}

// The dtype of that name, or nothing.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kUint8); ++i) {
    if (Name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Storage of the two-byte floats: bits alone, arithmetic is by conversion (convert.h).
struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<Bfloat16> {
  static constexpr DType value = DType::kBfloat16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUint8;
};

}  // namespace zeroshard::device
