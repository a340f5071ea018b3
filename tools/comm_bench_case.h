// CommBenchCase: one collective at one size, on one rank: its memory, the call, and whether the call gives what it must.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<CommBenchCase> bench, CommBenchCase::Create(communicator, options, op, bytes));
//   ZS_ASSIGN_OR_RETURN(const bool verified, bench->Verify());
//   ZS_RETURN_IF_ERROR(bench->Run());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/tools/comm_bench_options.h"

namespace zeroshard::tools {

// What a rank holds of device memory, and beside it of the host's, while it runs a case.
struct CommBenchBytes {
  int64_t device = 0;
  int64_t host = 0;
};

class CommBenchCase {
 public:
  // How many values elements have: neighbours in a rank, and ranks in an element, have others.
  static constexpr int kValues = 7;

  // Of the largest of all that `options` name.
  static CommBenchBytes MostBytes(const CommBenchOptions& options, int world_size);

  // Collective. Errors: those of allocating.
  static absl::StatusOr<std::unique_ptr<CommBenchCase>> Create(comm::Communicator& communicator,
                                                               const CommBenchOptions& options, comm::OpKind op,
                                                               int64_t bytes);

  // Elements of the whole buffer: bytes rounded up to whole elements, and to whole parts where it has parts.
  int64_t elements() const { return elements_; }

  // One call, waited for. Errors: the collective's.
  absl::Status Run();
  // Collective. Fills, runs once and compares on every rank; afterwards buffers hold zeros. Whether all ranks found what they must: sums of
  // floats within the bound of how the communicator adds (sums_by_tree), all else to the bit.
  absl::StatusOr<bool> Verify();

 private:
  CommBenchCase(comm::Communicator& communicator, const CommBenchOptions& options, comm::OpKind op, int64_t bytes);
  absl::Status Allocate();
  absl::StatusOr<device::Buffer> MakeBuffer(int64_t elements, const char* what);
  comm::Work Issue();
  void Fill(device::Array array, int64_t first, bool zeros);
  double Given(int rank, int64_t index) const;
  double Expected(int64_t index) const;
  double Tolerance() const;
  bool Holds(device::Array array, int64_t first);

  comm::Communicator& communicator_;
  const CommBenchOptions options_;
  const comm::OpKind op_;
  const int64_t parts_;  // that the buffer is made of: the world size, or 1
  const int64_t elements_;
  const std::array<double, kValues> values_;  // that elements have
  std::unique_ptr<device::Stream> stream_;
  device::Buffer in_buffer_;
  device::Buffer out_buffer_;
  device::Array in_;
  device::Array out_;
  std::vector<std::byte> image_;  // of an array, on the host
};

}  // namespace zeroshard::tools
