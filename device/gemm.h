// A matrix product, planned once at start and run many times.
//
//   C[m, n] = A[m, k] B[k, n] (+ bias[n]) (+ C)
//
// Every operand is dense and row-major; a transposed one is stored as its transpose (A as [k, m], B as [n, k]). A and B are
// fp32, bf16 or fp16; C is fp32, or as A and B; sums are taken in fp32 and rounded once to C, with what C held and the bias
// in them. The bits depend on the plan's shape and dtypes and on the number of threads, on nothing else.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto fc, device.PlanGemm({.m = rows, .k = width, .n = 4 * width, .transpose_b = true, .bias = true}));
//   fc->Run(stream, x, weight, y, bias);
#pragma once

#include <cstdint>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

struct GemmSpec {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool transpose_a = false;            // A is stored as [k, m].
  bool transpose_b = false;            // B is stored as [n, k].
  bool bias = false;                   // A row of [n] is added to every row of C.
  bool accumulate = false;             // Adds to C in place of overwriting it.
  DType input = DType::kFloat32;       // of A and B
  DType output = DType::kFloat32;      // of C: fp32, or `input`
  DType bias_dtype = DType::kFloat32;  // fp32, or `input`
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  // Queues the product. With `accumulate` c is read as well as written. `bias` is empty unless the plan has one.
  virtual void Run(Stream& stream, In a, In b, InOut c, In bias = {}) = 0;
  virtual const GemmSpec& spec() const = 0;
};

}  // namespace zeroshard::device
