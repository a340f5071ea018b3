#include "zeroshard/comm/host_memory_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Of a piece's output in the staging memory, behind its input: no element lies across a multiple of its own size.
constexpr int64_t kOutAlignment = 64;

}  // namespace

// Each column of a collective needs its input and its output, perhaps for every rank; a piece has one at least.
int64_t HostMemoryView::StagingBytes(int world_size, int64_t staging_bytes) {
  return std::max<int64_t>(staging_bytes, kOutAlignment + 16 * (world_size + 1));
}

absl::StatusOr<HostMemoryView> HostMemoryView::Create(device::Device& device, device::Stream& stream, int rank,
                                                      int world_size, int64_t staging_bytes) {
  HostMemoryView view(device, stream, rank, world_size);
  ZS_ASSIGN_OR_RETURN(const device::Buffer probe,
                      device.Allocate(1, device::Use::kCommunication, "probe of a communicator"));
  if (device.HostAddress(probe.array(device::DType::kUint8)) != nullptr) return view;
  view.staging_bytes_ = StagingBytes(world_size, staging_bytes);
  ZS_ASSIGN_OR_RETURN(view.staging_,
                      device.AllocateHost(view.staging_bytes_, device::Use::kCommunication, "staging of collectives"));
  device.ledger().Predict(device::Use::kCommunication, view.staging_bytes_);
  view.staging_data_ = static_cast<std::byte*>(device.HostPointer(view.staging_));
  return view;
}

absl::Status HostMemoryView::Bind(const Operation& operation) {
  operation_ = &operation;
  call_ = HostCall();
  call_.kind = operation.kind;
  call_.op = operation.op;
  call_.in = operation.in_dtype;
  call_.out = operation.out_dtype;
  call_.root = operation.root;
  staged_ = staging_data_ != nullptr;
  segments_.clear();
  for (const Segment& segment : operation.segments) {
    HostSegment host;
    host.count = PartElements(operation.kind, segment);
    host.stride = segment.stride;
    if (host.count == 0) continue;
    if (writes()) call_.out = segment.out.dtype();
    if (!staged_ && reads()) host.in = static_cast<const std::byte*>(device_->HostAddress(segment.in));
    if (!staged_ && writes()) host.out = static_cast<std::byte*>(device_->HostAddress(segment.out));
    if (!staged_ && ((reads() && host.in == nullptr) || (writes() && host.out == nullptr))) {
      return absl::InternalError("the host can touch some of this device's memory, but not these arrays");
    }
    segments_.push_back(host);
  }
  call_.segments = segments_;
  return absl::OkStatus();
}

absl::Status HostMemoryView::RunStaged(absl::FunctionRef<absl::Status(const HostCall&)> schedule) {
  for (const Segment& segment : operation_->segments) {
    if (PartElements(call_.kind, segment) > 0) ZS_RETURN_IF_ERROR(RunSegment(segment, schedule));
  }
  return device_->status();
}

absl::Status HostMemoryView::RunSegment(const Segment& segment, absl::FunctionRef<absl::Status(const HostCall&)> schedule) {
  const int64_t ins = call_.kind == OpKind::kReduceScatter ? world_size_ : 1;
  const int64_t outs = call_.kind == OpKind::kAllGather ? world_size_ : 1;
  // The root's output dtype is known to the root alone: all leave room for the widest.
  const int64_t out_size = call_.kind == OpKind::kReduce ? 8 : call_.out_size();
  const int64_t most = (staging_bytes_ - kOutAlignment) / (ins * call_.in_size() + outs * out_size);
  const int64_t width = most >= 64 ? most / 64 * 64 : most;
  const int64_t count = PartElements(call_.kind, segment);
  for (int64_t first = 0; first < count; first += width) {
    const Stretch columns{first, std::min(width, count - first)};
    HostSegment host;
    host.in = staging_data_;
    const int64_t in_bytes = ins * columns.count * call_.in_size();
    host.out = staging_data_ + (in_bytes + kOutAlignment - 1) / kOutAlignment * kOutAlignment;
    host.count = columns.count;
    host.stride = columns.count;
    HostCall piece = call_;
    piece.segments = {&host, 1};
    if (reads()) CopyIn(segment, columns, staging_data_);
    stream_->Synchronize();
    ZS_RETURN_IF_ERROR(schedule(piece));
    if (writes()) CopyOut(segment, columns, host.out);
    stream_->Synchronize();
  }
  return absl::OkStatus();
}

void HostMemoryView::CopyIn(const Segment& segment, const Stretch& columns, std::byte* in) {
  const int parts = call_.kind == OpKind::kReduceScatter ? world_size_ : 1;
  for (int p = 0; p < parts; ++p) {
    device_->CopyToHost(*stream_, segment.in.Slice(p * segment.stride + columns.first, columns.count),
                        in + p * columns.count * call_.in_size());
  }
}

void HostMemoryView::CopyOut(const Segment& segment, const Stretch& columns, const std::byte* out) {
  const int parts = call_.kind == OpKind::kAllGather ? world_size_ : 1;
  for (int p = 0; p < parts; ++p) {
    device_->CopyFromHost(*stream_, out + p * columns.count * call_.out_size(),
                          segment.out.Slice(p * segment.stride + columns.first, columns.count));
  }
}

void HostMemoryView::PoisonOutputs() {
  if (staged_ || !writes()) return;
  const int parts = call_.kind == OpKind::kAllGather ? world_size_ : 1;
  for (const HostSegment& segment : segments_) {
    const int64_t whole =
        call_.kind == OpKind::kReduceScatter ? (world_size_ - 1) * segment.stride + segment.count : segment.count;
    for (int p = 0; p < parts; ++p) {
      std::byte* out = segment.out + p * segment.stride * call_.out_size();
      const bool holds_input =
          reads() && out < segment.in + whole * call_.in_size() && segment.in < out + segment.count * call_.out_size();
      if (!holds_input) std::memset(out, 0xff, static_cast<size_t>(segment.count * call_.out_size()));
    }
  }
}

}  // namespace zeroshard::comm
