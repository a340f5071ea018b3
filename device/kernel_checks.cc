#include "zeroshard/device/kernel_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace zeroshard::device::kernel_checks {
namespace {

bool IsActivation(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBfloat16 || dtype == DType::kFloat16; }

void IsOf(const Array& array, DType dtype, const char* what) {
  CHECK(array.dtype() == dtype) << what << ": " << Name(array.dtype()) << " in place of " << Name(dtype);
}

// `array` is [any number, width] of an activation's dtype; the number.
int64_t RowsOf(const Array& array, int64_t width, const char* what) {
  CHECK(width > 0 && array.elements() % width == 0) << what << ": " << array.elements() << " elements in rows of " << width;
  CHECK(IsActivation(array.dtype())) << what << ": " << Name(array.dtype());
  return array.elements() / width;
}

void HasElements(const Array& array, int64_t elements, const char* what) { CHECK_EQ(array.elements(), elements) << what; }

void AreFloats(const Array& x, const Array& y, const char* what) {
  CHECK(IsFloat(x.dtype()) && IsFloat(y.dtype())) << what << " of integers";
  HasElements(x, y.elements(), what);
}

void AreLossRows(const LossRows& rows, int64_t count, const char* what) {
  HasElements(rows.targets, count, what);
  HasElements(rows.maximum, count, what);
  HasElements(rows.sum, count, what);
  HasElements(rows.target_logit, count, what);
}

}  // namespace

void Copy(const Array& x, const Array& y) {
  CHECK(x.dtype() == y.dtype()) << "copy from " << Name(x.dtype()) << " to " << Name(y.dtype());
  HasElements(x, y.elements(), "copy between arrays of unlike size");
}

void Convert(const Array& x, const Array& y) { AreFloats(x, y, "convert"); }
void Accumulate(const Array& x, const Array& y) { AreFloats(x, y, "accumulate"); }
void Scale(const Array& y) { AreFloats(y, y, "scale"); }

void Embed(const Array& tokens, const Array& table, const Array& positions, const Array& x) {
  const int64_t rows = tokens.elements();
  CHECK(rows > 0 && x.elements() % rows == 0) << "embedding: " << x.elements() << " elements in " << rows << " rows";
  IsOf(tokens, DType::kInt32, "embedding: tokens");
  IsOf(positions, table.dtype(), "embedding: positions");
  IsOf(x, DType::kFloat32, "embedding: x");
  const int64_t width = x.elements() / rows;
  CHECK_GT(RowsOf(positions, width, "embedding: positions"), 0) << "embedding: positions";
  RowsOf(table, width, "embedding: table");
}

void EmbedTokensBackward(const Array& tokens, const Array& d_x, const Array& d_table) {
  const int64_t rows = tokens.elements();
  CHECK(rows > 0 && d_x.elements() % rows == 0)
      << "embedding backward: " << d_x.elements() << " elements in " << rows << " rows";
  IsOf(tokens, DType::kInt32, "embedding backward: tokens");
  IsOf(d_x, DType::kFloat32, "embedding backward: d_x");
  RowsOf(d_table, d_x.elements() / rows, "embedding backward: d_table");
}

void EmbedPositionsBackward(const Array& d_x, const Array& d_positions) {
  IsOf(d_x, DType::kFloat32, "positions backward: d_x");
  RowsOf(d_x, d_positions.elements(), "positions backward");
  CHECK(IsActivation(d_positions.dtype())) << "positions backward: " << Name(d_positions.dtype());
}

void LayerNorm(const Array& x, const Array& weight, const Array& bias, const Array& normalized,
               const Array& inverse_deviation, const Array& y) {
  IsOf(x, DType::kFloat32, "layer norm: x");
  HasElements(inverse_deviation, RowsOf(x, weight.elements(), "layer norm"), "layer norm: inverse deviation");
  for (const Array* array : {&normalized, &y}) HasElements(*array, x.elements(), "layer norm");
  HasElements(bias, weight.elements(), "layer norm: bias");
  CHECK(IsActivation(y.dtype())) << "layer norm: " << Name(y.dtype());
  for (const Array* array : {&normalized, &weight, &bias}) IsOf(*array, y.dtype(), "layer norm");
}

void LayerNormBackward(const Array& d_y, const Array& normalized, const Array& inverse_deviation, const Array& weight,
                       const Array& d_x, const LayerNormPartials& partials, const LayerNormForProducts& products) {
  const int64_t width = weight.elements(), rows = RowsOf(d_y, width, "layer norm backward");
  for (const Array* sums : {&partials.weight, &partials.bias, &partials.d_x}) {
    HasElements(*sums, PartialRows(rows) * width, "layer norm backward: partials");
  }
  HasElements(inverse_deviation, rows, "layer norm backward: inverse deviation");
  IsOf(weight, normalized.dtype(), "layer norm backward: weight");
  IsOf(d_x, DType::kFloat32, "layer norm backward: d_x");
  CHECK(d_y.dtype() == normalized.dtype() || d_y.dtype() == DType::kFloat32)
      << "layer norm backward: d_y of " << Name(d_y.dtype());
  for (const Array* array : {&normalized, &d_x}) HasElements(*array, rows * width, "layer norm backward");
  for (const Array* array : {&products.rounded, &products.y}) {
    if (array->empty()) continue;
    IsOf(*array, normalized.dtype(), "layer norm backward: for products");
    HasElements(*array, rows * width, "layer norm backward: for products");
  }
  if (products.y.empty()) return;
  IsOf(products.bias, normalized.dtype(), "layer norm backward: bias");
  HasElements(products.bias, width, "layer norm backward: bias");
}

void Gelu(const Array& x, const Array& y) {
  HasElements(y, RowsOf(x, 1, "GELU"), "GELU");
  IsOf(y, x.dtype(), "GELU");
}

void GeluBackward(const Array& x, const Array& d, const Array& partials, int64_t width) {
  HasElements(partials, PartialRows(RowsOf(x, width, "GELU backward")) * width, "GELU backward: partials");
  HasElements(d, x.elements(), "GELU backward");
  IsOf(d, x.dtype(), "GELU backward");
}

void SumRows(std::span<const RowSum> sums) {
  CHECK(!sums.empty() && sums.size() <= kMostRowSums) << "sum of rows: " << sums.size() << " at a time";
  for (const RowSum& one : sums) {
    RowsOf(one.x, one.sum.elements(), "sum of rows");
    CHECK(IsActivation(one.sum.dtype())) << "sum of rows: " << Name(one.sum.dtype());
    IsOf(one.x, sums[0].x.dtype(), "sum of rows");
    IsOf(one.sum, sums[0].sum.dtype(), "sum of rows");
  }
}

void LossExponentials(VocabularyColumns columns, const LossRows& rows, const Array& logits, const Array& exponentials,
                      const Array& block_maximum) {
  CHECK_GE(columns.row_stride(), columns.count) << "loss: rows overlap";
  const int64_t count = RowsOf(logits, columns.row_stride(), "loss");
  IsOf(logits, DType::kFloat32, "loss: logits");
  AreLossRows(rows, count, "loss: rows");
  HasElements(block_maximum, count, "loss: rows");
  CHECK_EQ(RowsOf(exponentials, columns.row_stride(), "loss: exponentials"), count);
}

void LossGradient(VocabularyColumns columns, const LossRows& rows, const Array& block_maximum, const Array& exponentials,
                  const Array& loss_scale) {
  CHECK_GE(columns.row_stride(), columns.count) << "loss backward: rows overlap";
  const int64_t count = RowsOf(exponentials, columns.row_stride(), "loss backward");
  AreLossRows(rows, count, "loss backward: rows");
  HasElements(block_maximum, count, "loss backward: rows");
  CHECK_LE(loss_scale.elements(), 1) << "loss backward: loss scale";
  if (!loss_scale.empty()) IsOf(loss_scale, DType::kFloat32, "loss backward: loss scale");
}

void Attention(const AttentionSpec& spec, const Array& qkv, const Array& out, const Array& log_sum_exp) {
  const int64_t positions = spec.batch * spec.heads * spec.context;
  HasElements(qkv, 3 * positions * spec.head_width, "attention: qkv");
  HasElements(out, positions * spec.head_width, "attention: out");
  HasElements(log_sum_exp, positions, "attention: log_sum_exp");
  IsOf(qkv, spec.dtype, "attention: qkv");
  IsOf(out, spec.dtype, "attention: out");
  IsOf(log_sum_exp, DType::kFloat32, "attention: log_sum_exp");
}

void AttentionWorkspace(int64_t bytes, const Array& workspace) {
  CHECK_GE(workspace.bytes(), bytes) << "attention: workspace";
}

absl::Status CheckAttention(const AttentionSpec& spec) {
  if (spec.batch < 1 || spec.heads < 1 || spec.context < 1 || spec.head_width < 1) {
    return absl::InvalidArgumentError(absl::StrCat("attention: batch ", spec.batch, ", heads ", spec.heads, ", context ",
                                                   spec.context, ", head_width ", spec.head_width,
                                                   ": each must be at least 1"));
  }
  if (!IsActivation(spec.dtype)) {
    return absl::UnimplementedError(absl::StrCat("attention: fp32, bf16 or fp16, not ", std::string(Name(spec.dtype))));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::device::kernel_checks
