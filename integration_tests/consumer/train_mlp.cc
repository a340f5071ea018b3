// Another program's training: its own model (mlp.h), ZeRO stage 3 through zeroshard's engine, ranks that are threads.
//
//   bazel run //:train_mlp
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "mlp.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/engine.h"

namespace zero = zeroshard::zero;

constexpr int kRanks = 2, kSteps = 200;
constexpr MlpShape kShape = {.rows = 64, .inputs = 2, .hidden = 64, .outputs = 1};

// A rank's part of the step's batch: t = sin(3 a) cos(2 b).
void MakeBatch(std::mt19937& random, std::vector<float>& x, std::vector<float>& target) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& v : x) v = uniform(random);
  for (size_t i = 0; i < target.size(); ++i) target[i] = std::sin(3 * x[2 * i]) * std::cos(2 * x[2 * i + 1]);
}

absl::Status WriteInitial(zero::Engine& engine) {
  std::mt19937 random(1);
  for (const auto& unit : Mlp::Units(kShape)) {
    const auto& weight = unit.parameters[0];
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(weight.shape[1])));
    std::vector<float> values(static_cast<size_t>(zeroshard::model::Elements(weight)));
    for (float& v : values) v = normal(random);
    ZS_RETURN_IF_ERROR(engine.WriteParameter(weight.name, values));
  }
  return absl::OkStatus();
}

absl::Status Step(zero::Engine& engine, Mlp& mlp) {
  for (int u : {0, 1}) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, zero::Pass::kForward));
    ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(u));
    mlp.Forward(engine.compute(), u, parameters);
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  for (int u : {1, 0}) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, zero::Pass::kBackward));
    ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(u));
    ZS_ASSIGN_OR_RETURN(const auto gradients, engine.gradients(u));
    mlp.Backward(engine.compute(), u, parameters, gradients);
    ZS_RETURN_IF_ERROR(engine.GradientsReady(u));
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  return engine.Step();
}

absl::Status Train(zeroshard::comm::Communicator& communicator, float& first_loss, float& last_loss) {
  zero::EngineOptions options{.stage = 3, .clip = 1, .optimizer = {}};
  options.optimizer.schedule = {
      .kind = zeroshard::optim::ScheduleKind::kCosine, .learning_rate = 2e-2, .warmup_steps = 10, .total_steps = kSteps};
  ZS_ASSIGN_OR_RETURN(const auto engine, zero::Engine::Create(communicator, Mlp::Units(kShape), options));
  ZS_RETURN_IF_ERROR(WriteInitial(*engine));
  ZS_ASSIGN_OR_RETURN(const auto mlp, Mlp::Create(communicator.device(), kShape));
  std::mt19937 random(100 + static_cast<unsigned>(communicator.rank()));
  std::vector<float> x(static_cast<size_t>(kShape.rows * kShape.inputs)), target(static_cast<size_t>(kShape.rows));
  for (int step = 0; step < kSteps; ++step) {
    MakeBatch(random, x, target);
    communicator.device().CopyFromHost(engine->compute(), x.data(), mlp->x);
    communicator.device().CopyFromHost(engine->compute(), target.data(), mlp->target);
    ZS_RETURN_IF_ERROR(Step(*engine, *mlp));
    communicator.device().CopyToHost(engine->compute(), mlp->loss, &last_loss);
    ZS_ASSIGN_OR_RETURN(const zero::StepResult result, engine->Result());
    if (step == 0) first_loss = last_loss;
    if (communicator.rank() == 0 && step % 20 == 0) {
      std::printf("step %3d  loss %.5f  norm %.4f  lr %.4f\n", step, last_loss, result.gradient_norm, result.learning_rate);
    }
  }
  return communicator.Finalize();
}

int main() {
  std::unique_ptr<device::Device> devices[kRanks];
  std::vector<device::Device*> pointers;
  for (auto& d : devices) pointers.push_back((d = device::MakeCpuDevice()).get());
  auto ranks = zeroshard::backends::MakeInProcessGroup(pointers);
  if (!ranks.ok()) return std::fprintf(stderr, "%s\n", ranks.status().ToString().c_str()), EXIT_FAILURE;
  absl::Status status[kRanks];
  float first[kRanks] = {}, last[kRanks] = {};
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      status[r] = Train(*(*ranks)[r], first[r], last[r]);
      if (!status[r].ok()) (*ranks)[r]->Abort(status[r]);  // so that nobody waits for this rank
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& s : status) {
    if (!s.ok()) return std::fprintf(stderr, "%s\n", s.ToString().c_str()), EXIT_FAILURE;
  }
  std::printf("loss %.5f -> %.5f\n", first[0], last[0]);
  return last[0] < 0.1f * first[0] ? EXIT_SUCCESS : EXIT_FAILURE;
}
