#include "zeroshard/device/gelu_after_gemm.h"

#include <utility>

#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

class GeluAfterGemm final : public GeluGemm {
 public:
  explicit GeluAfterGemm(std::unique_ptr<Gemm> gemm) : gemm_(std::move(gemm)) {}

  void Run(Stream& stream, In a, In b, In bias, Out x, Out y) override {
    gemm_->Run(stream, a, b, x.array, bias);
    stream.device().transformer().Gelu(stream, x.array, y);
  }
  void RunInput(Stream& stream, In a, In b, In bias, Out x, Out /*scratch*/) override {
    gemm_->Run(stream, a, b, x.array, bias);
  }

 private:
  const std::unique_ptr<Gemm> gemm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluAfterGemm(Device& device, const GemmSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, device.PlanGemm(spec));
  return std::make_unique<GeluAfterGemm>(std::move(gemm));
}

}  // namespace zeroshard::device
