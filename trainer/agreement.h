// What ranks must agree on before the first step, whoever started them and with whatever flags.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(options.run.seed, AgreeOnSeed(communicator, options.run.seed));
//   ZS_RETURN_IF_ERROR(CheckAgreement(communicator, options));
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/trainer/train_options.h"

namespace zeroshard::trainer {

// Collective: every rank gets rank 0's seed, so that weights and the order of samples are one run's. Errors: the communicator's.
absl::StatusOr<uint64_t> AgreeOnSeed(comm::Communicator& communicator, uint64_t seed);

// A number over everything in the options that changes what is computed, but the seed.
int64_t Fingerprint(const TrainOptions& options);

// Collective. Errors: kFailedPrecondition, on every rank, with the first rank whose fingerprint is not rank 0's, and in what their
// settings (TrainOptions::config) differ, where those tell.
absl::Status CheckAgreement(comm::Communicator& communicator, const TrainOptions& options);

}  // namespace zeroshard::trainer
