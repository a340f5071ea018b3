// A matrix product, planned once at start and run many times.
//
//   C[m, n] = A[m, k] B[k, n] (+ bias[n]) (+ C)
//
// Every operand is row-major; a transposed one is stored as its transpose (A as [k, m], B as [n, k]). B is dense, and so are A and C
// but where the spec says how far apart their rows lie: what is between them is neither read nor written. A and B are
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
  // Elements from the start of a row of A, as it is stored, and of C, to the start of the next; 0: dense.
  int64_t a_stride = 0;
  int64_t c_stride = 0;

  int64_t a_rows() const { return transpose_a ? k : m; }  // as A is stored
  int64_t a_columns() const { return transpose_a ? m : k; }
  int64_t a_row_stride() const { return a_stride > 0 ? a_stride : a_columns(); }
  int64_t c_row_stride() const { return c_stride > 0 ? c_stride : n; }
  bool dense() const { return a_row_stride() == a_columns() && c_row_stride() == n; }
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  // Queues the product. Where rows lie apart the last one is as long as the others, too. With `accumulate` c is read as well as
  // written. `bias` is empty unless the plan has one.
  virtual void Run(Stream& stream, In a, In b, InOut c, In bias = {}) = 0;
  virtual const GemmSpec& spec() const = 0;
};

}  // namespace zeroshard::device
