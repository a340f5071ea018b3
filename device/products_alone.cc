#include "zeroshard/device/products_alone.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

class NoElementwise final : public Elementwise {
 public:
  void Fill(Stream&, Out, double) override {}
  void Copy(Stream&, In, Out) override {}
  void Convert(Stream&, In, Out) override {}
  void Accumulate(Stream&, In, InOut) override {}
  void Scale(Stream&, InOut, double) override {}
};

class NoTransformerKernels final : public TransformerKernels {
 public:
  explicit NoTransformerKernels(const TransformerKernels& inner) : inner_(inner) {}

  void Embed(Stream&, In, In, In, Out) override {}
  void EmbedTokensBackward(Stream&, In, In, InOut, WriteMode) override {}
  void EmbedPositionsBackward(Stream&, In, InOut, WriteMode) override {}
  void LayerNorm(Stream&, In, In, In, Out, Out, Out) override {}
  void LayerNormBackward(Stream&, In, In, In, In, InOut, WriteMode, const LayerNormPartials&,
                         const LayerNormForProducts&) override {}
  void Gelu(Stream&, In, Out) override {}
  void GeluBackward(Stream&, InOut, InOut, Out, int64_t) override {}
  void SumRows(Stream&, std::span<const RowSum>) override {}
  LossBlocks loss_blocks(DType dtype) const override { return inner_.loss_blocks(dtype); }
  void LossExponentials(Stream&, VocabularyColumns, const LossRows&, In, Out, Out) override {}
  void LossGradient(Stream&, VocabularyColumns, const LossRows&, In, float, InOut, In) override {}
  void LossSum(Stream&, const LossRows&, Out) override {}

 private:
  const TransformerKernels& inner_;
};

// A stream whose device() is ProductsAlone, and which a plan of the inner device is not handed, but the stream within.
class OuterStream final : public Stream {
 public:
  OuterStream(Device& device, std::unique_ptr<Stream> inner) : device_(device), inner_(std::move(inner)) {}

  static Stream& Inner(Stream& stream) { return *static_cast<OuterStream&>(stream).inner_; }

  Device& device() override { return device_; }
  StreamKind kind() const override { return inner_->kind(); }
  void Record(Event& event) override { inner_->Record(event); }
  void Wait(const Event& event) override { inner_->Wait(event); }
  void Synchronize() override { inner_->Synchronize(); }
  void Enqueue(const Operation& operation) override { inner_->Enqueue(operation); }
  void Stamp(int64_t& time) override { inner_->Stamp(time); }

 private:
  Device& device_;
  const std::unique_ptr<Stream> inner_;
};

class OuterGemm final : public Gemm {
 public:
  explicit OuterGemm(std::unique_ptr<Gemm> inner) : inner_(std::move(inner)) {}

  const GemmSpec& spec() const override { return inner_->spec(); }
  void Run(Stream& stream, In a, In b, InOut c, In bias) override { inner_->Run(OuterStream::Inner(stream), a, b, c, bias); }

 private:
  const std::unique_ptr<Gemm> inner_;
};

class OuterGeluGemm final : public GeluGemm {
 public:
  explicit OuterGeluGemm(std::unique_ptr<GeluGemm> inner) : inner_(std::move(inner)) {}

  void Run(Stream& stream, In a, In b, In bias, Out x, Out y) override {
    inner_->Run(OuterStream::Inner(stream), a, b, bias, x, y);
  }
  void RunInput(Stream& stream, In a, In b, In bias, Out x, Out scratch) override {
    inner_->RunInput(OuterStream::Inner(stream), a, b, bias, x, scratch);
  }

 private:
  const std::unique_ptr<GeluGemm> inner_;
};

class OuterAttention final : public Attention {
 public:
  explicit OuterAttention(std::unique_ptr<Attention> inner) : inner_(std::move(inner)) {}

  const AttentionSpec& spec() const override { return inner_->spec(); }
  int64_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  void Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) override {
    inner_->Forward(OuterStream::Inner(stream), qkv, out, log_sum_exp, workspace);
  }
  void Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) override {
    inner_->Backward(OuterStream::Inner(stream), qkv, out, log_sum_exp, d_out, d_qkv, workspace);
  }

 private:
  const std::unique_ptr<Attention> inner_;
};

// Numbers of 2^-5 to 2^-4 and either sign in bf16, and so in fp32; in fp16 the same bits are 1.25 to 1.37.
std::vector<uint16_t> RandomHalves(int64_t count) {
  constexpr uint32_t kSign = 0x8000, kExponent = 0x3d00, kFraction = 0x7f;
  std::mt19937 random(1);
  std::vector<uint16_t> halves(static_cast<size_t>(count));
  for (uint16_t& half : halves) {
    const auto bits = static_cast<uint32_t>(random());
    half = static_cast<uint16_t>((bits & kSign) | kExponent | (bits >> 16 & kFraction));
  }
  return halves;
}

}  // namespace

ProductsAlone::ProductsAlone(Device& device)
    : inner_(device),
      elementwise_(std::make_unique<NoElementwise>()),
      transformer_(std::make_unique<NoTransformerKernels>(device.transformer())),
      setup_(device.MakeStream(StreamKind::kCompute)) {}

ProductsAlone::~ProductsAlone() = default;

absl::StatusOr<Buffer> ProductsAlone::Allocate(int64_t bytes, Use use, std::string_view what) {
  ZS_ASSIGN_OR_RETURN(Buffer buffer, inner_.Allocate(bytes, use, what));
  FillRandomly(buffer);
  ZS_RETURN_IF_ERROR(inner_.status());
  return buffer;
}

// Numbers from the host once, and copies of them on the device.
void ProductsAlone::FillRandomly(const Buffer& buffer) {
  constexpr int64_t kMost = 8 << 20;
  const Array all = buffer.array(DType::kBfloat16);
  const int64_t first = std::min(all.elements(), kMost);
  if (first == 0) return;
  std::lock_guard<std::mutex> lock(filling_);
  const std::vector<uint16_t> halves = RandomHalves(first);
  inner_.CopyFromHost(*setup_, halves.data(), all.Slice(0, first));
  for (int64_t at = first; at < all.elements(); at += first) {
    const int64_t count = std::min(first, all.elements() - at);
    inner_.elementwise().Copy(*setup_, all.Slice(0, count), all.Slice(at, count));
  }
  setup_->Synchronize();
}

std::unique_ptr<Stream> ProductsAlone::MakeStream(StreamKind kind) {
  return std::make_unique<OuterStream>(*this, inner_.MakeStream(kind));
}

absl::StatusOr<std::unique_ptr<Gemm>> ProductsAlone::PlanGemm(const GemmSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> inner, inner_.PlanGemm(spec));
  return std::make_unique<OuterGemm>(std::move(inner));
}

absl::StatusOr<std::unique_ptr<GeluGemm>> ProductsAlone::PlanGeluGemm(const GemmSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<GeluGemm> inner, inner_.PlanGeluGemm(spec));
  return std::make_unique<OuterGeluGemm>(std::move(inner));
}

absl::StatusOr<std::unique_ptr<Attention>> ProductsAlone::PlanAttention(const AttentionSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<Attention> inner, inner_.PlanAttention(spec));
  return std::make_unique<OuterAttention>(std::move(inner));
}

}  // namespace zeroshard::device
