#include "zeroshard/trainer/data/data_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {

absl::StatusOr<DataSet> DataSet::Open(const PreparedData& data, const DataSetOptions& options) {
  ZS_ASSIGN_OR_RETURN(TokenStream stream, TokenStream::Open(data.files));
  const int64_t sequences = SequencesOf(stream.tokens(), options.context);
  if (sequences < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the data holds ", stream.tokens(),
                                                   " tokens, fewer than one sequence of ", options.context,
                                                   " and the token after it"));
  }
  return DataSet(std::move(stream), SampleOrder(sequences, options.seed, options.mode), options.context, data.vocab,
                 data.fully_checked);
}

DataSet::DataSet(TokenStream stream, SampleOrder order, int64_t context, int64_t vocab, bool checked)
    : stream_(std::move(stream)),
      order_(order),
      context_(context),
      vocab_(vocab),
      checked_(checked),
      window_(static_cast<size_t>(context + 1)) {}

absl::Status DataSet::Read(int64_t sample, std::span<int32_t> inputs, std::span<int32_t> targets) {
  const int64_t first = order_.Sequence(sample) * context_;
  ZS_RETURN_IF_ERROR(stream_.Read(first, window_));
  if (!checked_) {
    const absl::Status in_vocabulary = stream_.CheckVocabulary(first, window_, vocab_);
    if (!in_vocabulary.ok()) return absl::DataLossError(in_vocabulary.message());
  }
  std::copy_n(window_.begin(), context_, inputs.begin());
  std::copy_n(window_.begin() + 1, context_, targets.begin());
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer
