// GemmChoices: which of cuBLASLt's algorithms each planned product runs by. The first plan of a shape takes the heuristics' first answer,
// never a timed one; rank 0's choices go to all ranks, and into what is saved, so that ranks and runs give the same bits.
//
// An algorithm is opaque bytes, which mean the same to the same version of cuBLASLt alone, on a card of the same architecture.
//
// Example: rank 0 sends choices.Text(); the others, before their first product:
//   ZS_ASSIGN_OR_RETURN(const GemmChoices::Algorithms algorithms, choices.Read(text));
//   choices.Take(algorithms);
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace zeroshard::device::cuda {

struct GemmChoice {
  cublasLtMatmulAlgo_t algorithm = {};
  bool chosen = false;
};

class GemmChoices {
 public:
  using Algorithms = std::map<std::string, cublasLtMatmulAlgo_t>;  // by product

  // library: what choices depend on beside shapes: "cuBLASLt 130001 on sm_90".
  explicit GemmChoices(std::string library) : library_(std::move(library)) {}

  // The choice for a product; lives as long as this, at one place, so that Take reaches plans that were made before. Thread-safe; what is
  // in it is read and written when nobody plans, takes or runs.
  GemmChoice& Of(const std::string& product);

  // Whether there is one.
  bool Has(const std::string& product) const;

  // The library, and each product with its choice, one a line.
  std::string Text() const;

  // What `text` says. Errors: kFailedPrecondition if it is of another library or card, or lacks a product that is planned here;
  // kInvalidArgument if it is no such text.
  absl::StatusOr<Algorithms> Read(std::string_view text) const;
  // Those of `algorithms` that are not what is chosen here.
  Algorithms Changes(const Algorithms& algorithms) const;
  void Take(const Algorithms& algorithms);

 private:
  const std::string library_;
  mutable std::mutex mutex_;
  std::map<std::string, GemmChoice> choices_;
};

}  // namespace zeroshard::device::cuda
