#include "zeroshard/device/cpu/bfloat16_products.h"

#include "zeroshard/device/cpu/onednn.h"

namespace zeroshard::device {

Bfloat16Products FindBfloat16Products() {
  static const Bfloat16Products found = [] {
    if (OneDnnEngine() == nullptr) return Bfloat16Products::kWidened;
    const dnnl_dims_t square = {64, 64}, strides = {64, 1};
    dnnl_memory_desc_t operand, result;
    dnnl_matmul_desc_t matmul;
    OneDnnDescription description;
    const bool made =
        dnnl_memory_desc_init_by_strides(&operand, 2, square, dnnl_bf16, strides) == dnnl_success &&
        dnnl_memory_desc_init_by_strides(&result, 2, square, dnnl_f32, strides) == dnnl_success &&
        dnnl_matmul_desc_init(&matmul, &operand, &operand, nullptr, &result) == dnnl_success &&
        dnnl_primitive_desc_create(description.out(), &matmul, nullptr, OneDnnEngine(), nullptr) == dnnl_success;
    return made ? Bfloat16Products::kNative : Bfloat16Products::kWidened;
  }();
  return found;
}

}  // namespace zeroshard::device
