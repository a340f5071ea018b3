// The arithmetic of a step's batch: which rows of which micro-batch a rank takes, and what the loss's gradient is scaled by.
//
// Micro-batch a of step s has `rows` rows over all ranks; rank k of N takes rows k * rows / N ... (k + 1) * rows / N. Rows may not
// divide: ranks then differ by one, or have none.
//
// Note: The loss's scale. The step's loss is the mean over all its target tokens T. Backward computes the gradient of 2^k / T times the
// sum of losses, 2^k the largest power of two not above N * A; 2^-k is applied with the optimizer's unscale, exactly. So partial
// sums keep the size of an average over ranks and micro-batches, whatever N and A.
//
// Example:
//   BatchShape shape{.rows = 12, .context = 32, .accumulation = 4, .world_size = 5};
//   shape.FirstRow(1);                 // 2
//   shape.Rows(1);                     // 2
//   shape.GradientScale();             // 16 / (12 * 32 * 4)
#pragma once

#include <bit>
#include <cstdint>

namespace zeroshard::trainer {

struct BatchShape {
  int64_t rows = 0;  // of one micro-batch, all ranks together
  int64_t context = 0;
  int64_t accumulation = 1;
  int64_t world_size = 1;

  int64_t FirstRow(int64_t rank) const { return rank * rows / world_size; }
  int64_t Rows(int64_t rank) const { return FirstRow(rank + 1) - FirstRow(rank); }
  // Of any rank: what the model is planned for.
  int64_t MostRows() const { return (rows + world_size - 1) / world_size; }

  // The index of a rank's first sample of a micro-batch; its other rows follow.
  int64_t FirstSample(int64_t step, int64_t micro_batch, int64_t rank) const {
    return (step * accumulation + micro_batch) * rows + FirstRow(rank);
  }

  int64_t TokensPerStep() const { return rows * context * accumulation; }

  // See "Note: The loss's scale".
  double PowerOfTwo() const { return static_cast<double>(std::bit_floor(static_cast<uint64_t>(world_size * accumulation))); }
  double GradientScale() const { return PowerOfTwo() / static_cast<double>(TokensPerStep()); }
  double EngineScale() const { return 1 / PowerOfTwo(); }
};

}  // namespace zeroshard::trainer
