#include "zeroshard/trainer/data/sentence_piece.h"

#include <fstream>
#include <unordered_map>

#include "sentencepiece_processor.h"
#include "sentencepiece_trainer.h"
#include "zeroshard/trainer/data/sentence_piece_library.h"

namespace zeroshard::trainer {
namespace {

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::function<bool(std::string*)>& next) : next_(next) { Next(); }

  bool done() const override { return done_; }
  void Next() override { done_ = !next_(&line_); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<bool(std::string*)>& next_;
  std::string line_;
  bool done_ = false;
};

std::string Words(const sentencepiece::util::Status& status) { return status.ok() ? "" : status.ToString(); }

}  // namespace

struct SentencePiece::Parts {
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor;
  bool keeps_line_ends = false;
};

SentencePiece::SentencePiece() : parts_(std::make_unique<Parts>()) {}
SentencePiece::~SentencePiece() = default;
SentencePiece::SentencePiece(SentencePiece&&) noexcept = default;
SentencePiece& SentencePiece::operator=(SentencePiece&&) noexcept = default;

std::string SentencePiece::Load(const std::string& model_path) {
  std::string error = OpenSentencePiece();
  if (!error.empty()) return error;
  parts_->processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  error = Words(parts_->processor->Load(model_path));
  if (!error.empty()) return error;
  parts_->keeps_line_ends = Decode({parts_->processor->PieceToId("\n")}) == "\n";
  return {};
}

int SentencePiece::vocab() const { return parts_->processor->GetPieceSize(); }
bool SentencePiece::keeps_line_ends() const { return parts_->keeps_line_ends; }

std::string SentencePiece::Encode(std::string_view text, std::vector<int>* tokens) const {
  return Words(parts_->processor->Encode(text, tokens));
}

std::string SentencePiece::Decode(const std::vector<int>& tokens) const {
  std::string text;
  const bool decoded = parts_->processor->Decode(tokens, &text).ok();
  return decoded ? text : "";
}

std::string SentencePiece::Train(const std::function<bool(std::string*)>& next_line, int vocab,
                                 const std::string& model_path) {
  if (std::string error = OpenSentencePiece(); !error.empty()) return error;
  Lines lines(next_line);
  std::string model;
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"user_defined_symbols", "\n"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"num_threads", "1"},
      {"minloglevel", "2"},
  };
  std::string error = Words(sentencepiece::SentencePieceTrainer::Train(options, &lines, &model));
  if (!error.empty()) return error;
  std::ofstream out(model_path, std::ios::binary | std::ios::trunc);
  out << model;
  out.close();
  return out.good() ? "" : "cannot write " + model_path;
}

}  // namespace zeroshard::trainer
