#include "zeroshard/device/cpu/widened_gemm.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "zeroshard/device/cpu/convert_rows.h"
#include "zeroshard/device/cpu/cpu_stream.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cpu/launch_product.h"
#include "zeroshard/device/cpu/matmul_gemm.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

using std::byte;

constexpr DType kWide = DType::kFloat32;
// Elements of a widened block of A or B, 2 MB, where that is no fewer rows than kLeast nor more than kMost.
constexpr int64_t kBlockElements = 1 << 19, kLeast = 16, kMost = 256;

class WidenedGemm final : public Gemm {
 public:
  WidenedGemm(const GemmSpec& spec, Device& device) : spec_(spec), now_(device, StreamKind::kCompute) {
    const int64_t side = std::clamp(kBlockElements / spec.k, kLeast, kMost);
    rows_ = std::min(spec.m, side);
    columns_ = std::min(spec.n, side);
  }

  absl::Status Plan(int threads, Device& device, FirstError& error);
  void Run(Stream& stream, In a, In b, InOut c, In bias) override;
  const GemmSpec& spec() const override { return spec_; }

 private:
  bool empty() const { return spec_.m == 0 || spec_.n == 0; }
  // Elements of scratch from `first` on.
  Array Scratch(int64_t first, int64_t elements) const { return Array(scratch_, 0, kWide).Slice(first, elements); }
  void Execute(const byte* a, const byte* b, byte* c, const byte* bias);
  void WidenA(const byte* a, int64_t row, int64_t rows);
  void WidenB(const byte* b, int64_t column, int64_t columns);
  void Multiply(byte* c, int64_t row, int64_t rows, int64_t column, int64_t columns);

  const GemmSpec spec_;
  CpuStream now_;  // runs a block at once, inside an operation
  int64_t rows_, columns_;
  std::unique_ptr<Gemm> plans_[2][2];  // of blocks that are whole, or a rest, in rows and in columns
  Buffer buffer_;
  uint64_t scratch_ = 0;                       // its address
  int64_t b_at_ = 0, c_at_ = 0, bias_at_ = 0;  // where parts of scratch start, in elements; A at 0
};

absl::Status WidenedGemm::Plan(int threads, Device& device, FirstError& error) {
  if (empty()) return absl::OkStatus();
  for (int rest_rows = 0; rest_rows < 2; ++rest_rows) {
    for (int rest_columns = 0; rest_columns < 2; ++rest_columns) {
      GemmSpec block = spec_;
      block.input = block.output = block.bias_dtype = kWide;
      block.m = rest_rows == 0 ? rows_ : spec_.m % rows_;
      block.n = rest_columns == 0 ? columns_ : spec_.n % columns_;
      block.a_stride = block.c_stride = 0;
      ZS_ASSIGN_OR_RETURN(plans_[rest_rows][rest_columns], PlanMatmul(block, threads, device, error));
    }
  }
  b_at_ = rows_ * spec_.k;
  c_at_ = b_at_ + columns_ * spec_.k;
  bias_at_ = c_at_ + rows_ * columns_;
  const int64_t elements = bias_at_ + (spec_.bias ? spec_.n : 0);
  ZS_ASSIGN_OR_RETURN(buffer_,
                      device.AllocateHost(elements * SizeOf(kWide), Use::kActivations, "a widened product's scratch"));
  scratch_ = reinterpret_cast<uint64_t>(device.HostPointer(buffer_));
  return absl::OkStatus();
}

void WidenedGemm::Run(Stream& stream, In a, In b, InOut c, In bias) {
  CheckOperands(spec_, a.array, b.array, c.array, bias.array);
  if (empty()) return;
  const auto run = [this](std::span<const byte> from_a, std::span<const byte> from_b, std::span<byte> to,
                          std::span<const byte> from_bias) {
    Execute(from_a.data(), from_b.data(), to.data(), from_bias.data());
  };
  LaunchProduct(stream, "widened product", spec_, run, a, b, c, bias);
}

void WidenedGemm::Execute(const byte* a, const byte* b, byte* c, const byte* bias) {
  auto* const scratch = reinterpret_cast<float*>(scratch_);
  if (spec_.bias) {
    ConvertRows({spec_.bias_dtype, bias, spec_.n}, {kWide, scratch + bias_at_, spec_.n}, 1, spec_.n);
  }
  for (int64_t column = 0; column < spec_.n; column += columns_) {
    const int64_t columns = std::min(columns_, spec_.n - column);
    WidenB(b, column, columns);
    for (int64_t row = 0; row < spec_.m; row += rows_) {
      const int64_t rows = std::min(rows_, spec_.m - row);
      WidenA(a, row, rows);
      Multiply(c, row, rows, column, columns);
    }
  }
}

void WidenedGemm::WidenA(const byte* a, int64_t row, int64_t rows) {
  auto* const to = reinterpret_cast<float*>(scratch_);
  const int64_t size = SizeOf(spec_.input), stride = spec_.a_row_stride();
  if (spec_.transpose_a) {
    ConvertRows({spec_.input, a + row * size, stride}, {kWide, to, rows}, spec_.k, rows);
  } else {
    ConvertRows({spec_.input, a + row * stride * size, stride}, {kWide, to, spec_.k}, rows, spec_.k);
  }
}

void WidenedGemm::WidenB(const byte* b, int64_t column, int64_t columns) {
  auto* const to = reinterpret_cast<float*>(scratch_) + b_at_;
  const int64_t size = SizeOf(spec_.input);
  if (spec_.transpose_b) {
    ConvertRows({spec_.input, b + column * spec_.k * size, spec_.k}, {kWide, to, spec_.k}, columns, spec_.k);
  } else {
    ConvertRows({spec_.input, b + column * size, spec_.n}, {kWide, to, columns}, spec_.k, columns);
  }
}

void WidenedGemm::Multiply(byte* c, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t stride = spec_.c_row_stride();
  byte* const part = c + (row * stride + column) * SizeOf(spec_.output);
  auto* const wide = reinterpret_cast<float*>(scratch_) + c_at_;
  if (spec_.accumulate) ConvertRows({spec_.output, part, stride}, {kWide, wide, columns}, rows, columns);
  Gemm& plan = *plans_[rows == rows_ ? 0 : 1][columns == columns_ ? 0 : 1];
  plan.Run(now_, Scratch(0, rows * spec_.k), Scratch(b_at_, columns * spec_.k), Scratch(c_at_, rows * columns),
           spec_.bias ? Scratch(bias_at_ + column, columns) : Array());
  ConvertRows({kWide, wide, columns}, {spec_.output, part, stride}, rows, columns);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> PlanWidenedGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error) {
  ZS_RETURN_IF_ERROR(CheckSpec(spec));
  auto gemm = std::make_unique<WidenedGemm>(spec, device);
  ZS_RETURN_IF_ERROR(gemm->Plan(threads, device, error));
  return gemm;
}

}  // namespace zeroshard::device
