// Turns a DType into a C++ element type: the kernels' switch, written once.
//
// Example:
//   VisitDType(x.dtype(), [&]<class T>(TypeTag<T>) { Launch<T>(x); });
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls visitor(TypeTag<T>()) for dtype's element type T.
template <class Visitor>
void VisitDType(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat32:
      return visitor(TypeTag<float>());
    case DType::kFloat64:
      return visitor(TypeTag<double>());
    case DType::kBfloat16:
      return visitor(TypeTag<Bfloat16>());
    case DType::kFloat16:
      return visitor(TypeTag<Float16>());
    case DType::kInt32:
      return visitor(TypeTag<int32_t>());
    case DType::kInt64:
      return visitor(TypeTag<int64_t>());
    case DType::kUint8:
      return visitor(TypeTag<uint8_t>());
  }
}

// Calls visitor(TypeTag<T>()) if dtype is fp32, bf16 or fp16, what activations are made of; does nothing otherwise.
template <class Visitor>
void VisitActivation(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat32:
      return visitor(TypeTag<float>());
    case DType::kBfloat16:
      return visitor(TypeTag<Bfloat16>());
    case DType::kFloat16:
      return visitor(TypeTag<Float16>());
    default:
      return;
  }
}

// Calls visitor(TypeTag<T>()) if dtype is a float; does nothing otherwise.
template <class Visitor>
void VisitFloat(DType dtype, Visitor&& visitor) {
  if (dtype == DType::kFloat64) return visitor(TypeTag<double>());
  VisitActivation(dtype, visitor);
}

}  // namespace zeroshard::device
