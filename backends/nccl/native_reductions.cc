#include "zeroshard/backends/nccl/native_reductions.h"

#include <algorithm>

#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/cuda/reduce_kernels.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/reduce_spec.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Operation;
using comm::OpKind;
using comm::Segment;
using device::Array;

class NativeReduction {
 public:
  NativeReduction(const Lane& lane, const Operation& operation)
      : lane_(lane), operation_(operation), scratch_(lane.scratch.As(operation.in_dtype)) {}

  absl::Status Run() {
    for (const Segment& segment : operation_.segments) {
      ZS_RETURN_IF_ERROR(operation_.kind == OpKind::kReduceScatter ? Scatter(segment) : Whole(segment));
    }
    return absl::OkStatus();
  }

 private:
  // A sum in `sum` is scaled and converted to `out`, where there is anything to do.
  absl::Status Finish(const Array& sum, const Array& out) const {
    const bool average = operation_.op == comm::ReduceOp::kAverage;
    if (sum.empty() || (!average && sum.address() == out.address())) return absl::OkStatus();
    device::ReduceSpec spec{.in = sum.dtype(), .out = out.dtype()};
    if (average) spec.divisor = lane_.world_size;
    ZS_RETURN_IF_ERROR(lane_.pace->Take(1));
    const device::cuda::PartsOfRanks alone{.received = {}, .parts = 1, .stride = 0, .own = sum, .own_part = 0};
    return device::cuda::CudaStatus(device::cuda::ReduceParts(lane_.native, spec, alone, out), "scaling a sum");
  }

  // All-reduce and reduce. Where the output has another dtype the sum lies in scratch first, a piece at a time.
  absl::Status Whole(const Segment& segment) const {
    const bool gets = operation_.kind == OpKind::kAllReduce || lane_.rank == operation_.root;
    // Whether a root converts is its own affair: all ranks call the same pieces.
    const int64_t room = scratch_.elements();
    const bool staged = operation_.kind == OpKind::kReduce || segment.out.dtype() != segment.in.dtype();
    const int64_t step = staged ? room : std::max<int64_t>(1, segment.in.elements());
    for (int64_t at = 0; at < segment.in.elements(); at += step) {
      const Array in = segment.in.Slice(at, std::min(step, segment.in.elements() - at));
      const Array out = gets ? segment.out.Slice(at, in.elements()) : in;
      const Array sum = staged ? scratch_.Slice(0, in.elements()) : out;
      CallGroup group(lane_);
      if (operation_.kind == OpKind::kAllReduce) {
        group.AllReduce(in, sum, NcclOp(operation_.op));
      } else {
        group.Reduce(in, sum, NcclOp(operation_.op), operation_.root);
      }
      ZS_RETURN_IF_ERROR(group.End());
      if (gets) ZS_RETURN_IF_ERROR(Finish(sum, out));
    }
    return absl::OkStatus();
  }

  // Reduce-scatter. ncclReduceScatter takes parts that lie close together: others are put so in scratch first, a piece at a time.
  absl::Status Scatter(const Segment& segment) const {
    const int64_t count = segment.out.elements();
    if (segment.stride == count && segment.out.dtype() == segment.in.dtype()) {
      CallGroup group(lane_);
      group.ReduceScatter(segment.in, segment.out, NcclOp(operation_.op));
      ZS_RETURN_IF_ERROR(group.End());
      return Finish(segment.out, segment.out);
    }
    const int64_t step = scratch_.elements() / (lane_.world_size + 1);
    for (int64_t at = 0; at < count; at += step) {
      const int64_t n = std::min(step, count - at);
      const Array packed = scratch_.Slice(0, n * lane_.world_size);
      for (int p = 0; p < lane_.world_size; ++p) {
        ZS_RETURN_IF_ERROR(lane_.pace->Take(1));
        lane_.stream->device().elementwise().Copy(*lane_.stream, segment.in.Slice(p * segment.stride + at, n),
                                                  packed.Slice(p * n, n));
      }
      const Array sum = scratch_.Slice(n * lane_.world_size, n);
      CallGroup group(lane_);
      group.ReduceScatter(packed, sum, NcclOp(operation_.op));
      ZS_RETURN_IF_ERROR(group.End());
      ZS_RETURN_IF_ERROR(Finish(sum, segment.out.Slice(at, n)));
    }
    return absl::OkStatus();
  }

  const Lane& lane_;
  const Operation& operation_;
  const Array scratch_;
};

}  // namespace

absl::Status ReduceNatively(const Lane& lane, const Operation& operation) { return NativeReduction(lane, operation).Run(); }

}  // namespace zeroshard::backends
