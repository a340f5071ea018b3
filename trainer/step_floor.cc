#include "zeroshard/trainer/step_floor.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "nlohmann/json.hpp"
#include "zeroshard/device/products_alone.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/single_rank.h"
#include "zeroshard/trainer/product_choices.h"

namespace zeroshard::trainer {
namespace {

// A step's micro-batches; nothing waits between them.
absl::Status RunStep(model::SingleRank& rank, const model::MicroBatch& micro_batch, int accumulation) {
  for (int a = 0; a < accumulation; ++a) {
    const auto mode = a == 0 ? device::WriteMode::kOverwrite : device::WriteMode::kAccumulate;
    ZS_RETURN_IF_ERROR(rank.Run(micro_batch, mode));
  }
  rank.stream().Synchronize();
  return rank.stream().device().status();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

absl::StatusOr<StepFloor> MeasureStepFloor(comm::Communicator& communicator, const RunOptions& options, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kFirst = 2;
  ZS_ASSIGN_OR_RETURN(const RunOptions settled, Settle(options, communicator.world_size()));
  const model::GptOptions& model = settled.model;
  device::ProductsAlone products(communicator.device());
  ZS_ASSIGN_OR_RETURN(const auto rank, model::SingleRank::Create(products, model));
  ZS_RETURN_IF_ERROR(ShareProductChoices(communicator, options.product_choices));
  const std::vector<int32_t> tokens(static_cast<size_t>(model.batch * model.context));
  const model::MicroBatch micro_batch{.inputs = tokens, .targets = tokens, .rows = model.batch};
  std::vector<double> seconds;
  ZS_RETURN_IF_ERROR(communicator.Barrier().Wait());
  for (int64_t step = 0; step < steps; ++step) {
    const Clock::time_point start = Clock::now();
    ZS_RETURN_IF_ERROR(RunStep(*rank, micro_batch, options.engine.accumulation));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  if (seconds.size() > kFirst) seconds.erase(seconds.begin(), seconds.begin() + kFirst);
  return StepFloor{.s_median = Median(seconds),
                   .s_min = *std::min_element(seconds.begin(), seconds.end()),
                   .steps = steps,
                   .tokens = options.rows * model.context * options.engine.accumulation,
                   .dtype = model.dtype};
}

std::string FormatStepFloor(const StepFloor& floor, const comm::Communicator& communicator) {
  return nlohmann::ordered_json({{"device", communicator.device().name()},
                                 {"dtype", device::Name(floor.dtype)},
                                 {"world_size", communicator.world_size()},
                                 {"steps", floor.steps},
                                 {"tokens", floor.tokens},
                                 {"floor_s_median", floor.s_median},
                                 {"floor_s_min", floor.s_min},
                                 {"floor_tokens_per_s", static_cast<double>(floor.tokens) / floor.s_median}})
      .dump();
}

}  // namespace zeroshard::trainer
