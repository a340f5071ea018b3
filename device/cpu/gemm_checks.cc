#include "zeroshard/device/cpu/gemm_checks.h"

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace zeroshard::device {
namespace {

bool IsOperand(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBfloat16 || dtype == DType::kFloat16; }

}  // namespace

std::string Describe(const GemmSpec& s) {
  return absl::StrCat(
      "product [", s.m, " x ", s.k, "] x [", s.k, " x ", s.n, "]", s.transpose_a ? " of A's transpose" : "",
      s.transpose_b ? " with B's transpose" : "", s.bias ? " + bias" : "", s.accumulate ? " + C" : "", ", ",
      std::string(Name(s.input)), " to ", std::string(Name(s.output)),
      s.dense() ? "" : absl::StrCat(", rows of A and C ", s.a_row_stride(), " and ", s.c_row_stride(), " apart"));
}

absl::Status CheckSpec(const GemmSpec& s) {
  if (s.m < 0 || s.n < 0 || s.k <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(s), ": m and n must be at least 0, k at least 1"));
  }
  if (s.a_row_stride() < s.a_columns() || s.c_row_stride() < s.n) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(s), ": rows overlap"));
  }
  if (!IsOperand(s.input)) {
    return absl::UnimplementedError(absl::StrCat(Describe(s), ": operands are fp32, bf16 or fp16"));
  }
  for (const DType dtype : {s.output, s.bias_dtype}) {
    if (dtype == DType::kFloat32 || dtype == s.input) continue;
    return absl::UnimplementedError(
        absl::StrCat(Describe(s), ": C and bias are fp32 or as A and B, not ", std::string(Name(dtype))));
  }
  return absl::OkStatus();
}

void CheckOperands(const GemmSpec& s, const Array& a, const Array& b, const Array& c, const Array& bias) {
  CHECK_EQ(a.elements(), s.a_rows() * s.a_row_stride()) << Describe(s) << ": A";
  CHECK_EQ(b.elements(), s.k * s.n) << Describe(s) << ": B";
  CHECK_EQ(c.elements(), s.m * s.c_row_stride()) << Describe(s) << ": C";
  CHECK_EQ(bias.elements(), s.bias ? s.n : 0) << Describe(s) << ": bias";
  CHECK(!s.bias || bias.dtype() == s.bias_dtype) << Describe(s) << ": bias of " << Name(bias.dtype());
  CHECK(a.dtype() == s.input && b.dtype() == s.input && c.dtype() == s.output) << Describe(s) << ": dtypes";
}

}  // namespace zeroshard::device
