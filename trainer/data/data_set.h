// The sequences that a run trains on: sample index in, inputs and targets out.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(DataSet data, DataSet::Open(prepared, {.context = 256, .seed = 7}));
//   ZS_RETURN_IF_ERROR(data.Read(sample, inputs, targets));           // [context] each
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/data/prepare.h"
#include "zeroshard/trainer/data/sample_order.h"
#include "zeroshard/trainer/data/token_stream.h"

namespace zeroshard::trainer {

struct DataSetOptions {
  int64_t context = 256;
  uint64_t seed = 0;
  SampleOrder::Mode mode = SampleOrder::Mode::kShuffled;
};

class DataSet {
 public:
  // Errors: as TokenStream::Open; kInvalidArgument for data shorter than one sequence.
  static absl::StatusOr<DataSet> Open(const PreparedData& data, const DataSetOptions& options);

  // Whole ones of so many tokens, each with the target after it.
  static int64_t SequencesOf(int64_t tokens, int64_t context) { return (tokens - 1) / context; }
  // Sequences of an epoch.
  int64_t sequences() const { return order_.sequences(); }

  // Inputs and targets [context] of sample `sample`: target i is the token after input i. Allocates nothing where it
  // succeeds. Errors: kDataLoss, with file and offset, for a file that cannot be read any more, or a token beyond the
  // vocabulary.
  absl::Status Read(int64_t sample, std::span<int32_t> inputs, std::span<int32_t> targets);

 private:
  DataSet(TokenStream stream, SampleOrder order, int64_t context, int64_t vocab, bool checked);

  TokenStream stream_;
  SampleOrder order_;
  int64_t context_;
  int64_t vocab_;
  bool checked_;
  std::vector<int32_t> window_;  // [context + 1]
};

}  // namespace zeroshard::trainer
