// Bytes a second of the step's end on one shard, beside a plain copy in the same run: AdamW and SGD passes (what they read
// and write), the exact norm (what it reads). Prints one JSON object.
//
//   bazel run -c opt //optim:optimizer_benchmark
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/optim/optimizer.h"

namespace zeroshard::optim {
namespace {

using device::Array;
using device::Buffer;
using device::DType;
using device::Use;

constexpr int64_t kElements = 8 << 20;  // 32 MiB an array: well beyond the caches
constexpr int kRounds = 9;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Case {
  const char* name;
  int64_t bytes_per_element;
  std::function<void()> run;
  std::vector<double> seconds = {};

  double BytesPerSecond() {
    std::sort(seconds.begin(), seconds.end());
    return static_cast<double>(bytes_per_element * kElements) / seconds[seconds.size() / 2];
  }
};

class Bench {
 public:
  Bench() {
    for (Buffer& buffer : buffers_) buffer = Allocate(4 * kElements);
    sum_ = Allocate(8 * device::kExactSumWords);
    scalars_ = Allocate(sizeof(device::StepScalars));
    device_->elementwise().Fill(*stream_, Weights(), 0.5);
    device_->elementwise().Fill(*stream_, Gradients(), 1e-3);
    Norm();
    device_->step().DeriveScalars(*stream_, sum_.array(DType::kInt64), MakeStepRule({}, 1, 1), 1e-9,
                                  scalars_.array(DType::kUint8));
  }

  void Norm() {
    device_->step().AddPowers(*stream_, Gradients(), device::OnePiece(kElements), 2, sum_.array(DType::kInt64));
  }
  void Copy() { device_->elementwise().Copy(*stream_, Gradients(), buffers_[2].array(DType::kFloat32)); }
  std::unique_ptr<Optimizer> Make(const OptimizerOptions& options) {
    auto optimizer = Optimizer::Create(*device_, options, kElements, {{0, kElements, 0}});
    CHECK(optimizer.ok()) << optimizer.status();
    return *std::move(optimizer);
  }
  void Apply(Optimizer& optimizer) {
    const absl::Status status = optimizer.Apply(
        *stream_, {.weights = Weights(), .gradients = Gradients(), .scalars = scalars_.array(DType::kUint8)});
    CHECK(status.ok()) << status;
  }
  // Gradients in bf16, and the new weights back in it.
  void ApplyMixed(Optimizer& optimizer) {
    const absl::Status status =
        optimizer.Apply(*stream_, {.weights = Weights(),
                                   .gradients = Gradients().As(DType::kBfloat16).Slice(0, kElements),
                                   .scalars = scalars_.array(DType::kUint8),
                                   .write_back = buffers_[2].array(DType::kBfloat16).Slice(0, kElements)});
    CHECK(status.ok()) << status;
  }

 private:
  Buffer Allocate(int64_t bytes) {
    auto buffer = device_->Allocate(bytes, Use::kData, "benchmark");
    CHECK(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }
  Array Weights() { return buffers_[0].array(DType::kFloat32); }
  Array Gradients() { return buffers_[1].array(DType::kFloat32); }

  std::unique_ptr<device::Device> device_ = device::MakeCpuDevice();
  std::unique_ptr<device::Stream> stream_ = device_->MakeStream(device::StreamKind::kCompute);
  Buffer buffers_[3], sum_, scalars_;
};

void Report() {
  Bench bench;
  auto adamw = bench.Make({.groups = {{.weight_decay = 0.1}}});
  auto momentum = bench.Make({.kind = Kind::kSgd, .momentum = 0.9});
  auto sgd = bench.Make({.kind = Kind::kSgd});
  std::vector<Case> cases = {{"copy", 8, [&] { bench.Copy(); }},
                             {"adamw", 28, [&] { bench.Apply(*adamw); }},
                             {"adamw_bf16", 28, [&] { bench.ApplyMixed(*adamw); }},
                             {"sgd_momentum", 20, [&] { bench.Apply(*momentum); }},
                             {"sgd_momentum_bf16", 20, [&] { bench.ApplyMixed(*momentum); }},
                             {"sgd", 12, [&] { bench.Apply(*sgd); }},
                             {"norm", 4, [&] { bench.Norm(); }}};
  for (int round = 0; round < kRounds; ++round) {
    for (Case& c : cases) {
      const double start = ThreadSeconds();
      c.run();
      c.seconds.push_back(ThreadSeconds() - start);
    }
  }
  const double copy = cases[0].BytesPerSecond();
  std::printf("{\"elements\": %lld", static_cast<long long>(kElements));
  for (Case& c : cases) {
    const double rate = c.BytesPerSecond();
    std::printf(", \"%s\": {\"bytes_per_s\": %.4g, \"of_copy\": %.3f}", c.name, rate, rate / copy);
  }
  std::printf("}\n");
}

}  // namespace
}  // namespace zeroshard::optim

int main() { zeroshard::optim::Report(); }
