#include "zeroshard/zero/offload/parameter_tier.h"

#include <algorithm>

#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

namespace {

constexpr char kLabel[] = "parameters";

}  // namespace

void ParameterTier::Bring(const Piece& piece) {
  if (thread_ == nullptr) {
    for (const device::Event* event : piece.after) up_->Wait(*event);
    {
      const device::ScopedSpan span(*up_, device::SpanKind::kCopy, kLabel, piece.to.bytes());
      device_->CopyFromHost(*up_, HostBytes(memory_.array(dtype_).Slice(piece.first, piece.to.elements())), piece.to);
    }
    if (piece.brought != nullptr) up_->Record(*piece.brought);
    return;
  }
  if (piece.brought != nullptr) piece.brought->Expect();
  const int64_t index = posted_++ % static_cast<int64_t>(pieces_.size());
  pieces_[index] = piece;
  thread_->Post(
      [](void* self, int64_t i) {
        auto& tier = *static_cast<ParameterTier*>(self);
        tier.BringFromFile(tier.pieces_[i]);
      },
      this, index);
}

void ParameterTier::BringFromFile(const Piece& piece) {
  for (const device::Event* event : piece.after) up_->Wait(*event);
  {
    const device::ScopedSpan span(*up_, device::SpanKind::kCopy, kLabel, piece.to.bytes());
    error_.Keep(ReadUp(piece));
  }
  if (piece.brought != nullptr) up_->Record(*piece.brought);
}

// While one part goes up, the next one is read.
absl::Status ParameterTier::ReadUp(const Piece& piece) {
  const int64_t most = kBringBytes / SizeOf(dtype_);
  const int64_t count = piece.to.elements();
  const auto range = [&](int64_t first) { return Range{piece.first + first, std::min(most, count - first)}; };
  const auto read = [&](int64_t first) {
    const int half = static_cast<int>(first / most % 2);
    const Pages pages = PagesOf(range(first));
    sent_[half]->Synchronize();
    file_->Read(pages.offset, Staging(half), pages.bytes, reads_up_[half]);
  };
  if (count > 0) read(0);
  for (int64_t first = 0; first < count; first += most) {
    const int half = static_cast<int>(first / most % 2);
    if (first + most < count) read(first + most);
    const absl::Status came = file_->Wait(reads_up_[half]);
    if (!came.ok()) {
      file_->Wait(reads_up_[1 - half]).IgnoreError();
      return came;
    }
    device_->CopyFromHost(*up_, Staging(half) + PagesOf(range(first)).skipped, piece.to.Slice(first, range(first).count));
    up_->Record(*sent_[half]);
  }
  return absl::OkStatus();
}

absl::Status ParameterTier::Fetch(int64_t group, bool reads) {
  if (file_ == nullptr) return absl::OkStatus();
  Buffer& buffer = buffers_[group % plan_.buffers];
  ZS_RETURN_IF_ERROR(file_->Wait(buffer.written));
  if (reads) {
    file_->Read(OffsetOf(plan_.Group(group).first), HostBytes(buffer.memory.array(dtype_)), buffer.memory.bytes(),
                buffer.read);
  }
  return absl::OkStatus();
}

absl::Status ParameterTier::Await(int64_t group) {
  return file_ == nullptr ? absl::OkStatus() : file_->Wait(buffers_[group % plan_.buffers].read);
}

Array ParameterTier::Of(int64_t group) const {
  const Range range = plan_.Group(group);
  if (file_ == nullptr) return memory_.array(dtype_).Slice(range.first, range.count);
  return buffers_[group % plan_.buffers].memory.array(dtype_).Slice(0, range.count);
}

void ParameterTier::Store(int64_t group) {
  if (file_ == nullptr) return;
  Buffer& buffer = buffers_[group % plan_.buffers];
  file_->Write(OffsetOf(plan_.Group(group).first), HostBytes(buffer.memory.array(dtype_)), buffer.memory.bytes(),
               buffer.written);
}

absl::Status ParameterTier::Finish() {
  for (Buffer& buffer : buffers_) ZS_RETURN_IF_ERROR(file_->Wait(buffer.written));
  return absl::OkStatus();
}

absl::StatusOr<Array> ParameterTier::Open(Range range) {
  if (file_ == nullptr) return memory_.array(dtype_).Slice(range.first, range.count);
  thread_->Drain();
  const Pages pages = PagesOf(range);
  sent_[0]->Synchronize();
  file_->Read(pages.offset, Staging(0), pages.bytes, reads_up_[0]);
  ZS_RETURN_IF_ERROR(file_->Wait(reads_up_[0]));
  return staging_.array(DType::kUint8).Slice(pages.skipped, range.count * SizeOf(dtype_)).As(dtype_);
}

absl::Status ParameterTier::Close(Range range, bool written) {
  if (file_ == nullptr || !written) return absl::OkStatus();
  const Pages pages = PagesOf(range);
  file_->Write(pages.offset, Staging(0), pages.bytes, reads_up_[0]);
  return file_->Wait(reads_up_[0]);
}

absl::Status ParameterTier::Read(device::Stream& stream, Range range, const Array& to) {
  return Carry(stream, range, to, Direction::kUp);
}

absl::Status ParameterTier::Write(device::Stream& stream, Range range, const Array& from) {
  return Carry(stream, range, from, Direction::kDown);
}

// By the second half of the staging memory, as fp32.
absl::Status ParameterTier::Carry(device::Stream& stream, Range range, const Array& on_device, Direction direction) {
  const int64_t half = staging_.bytes() / 2;
  for (int64_t first = 0; first < range.count; first += kNamedElements) {
    const Range part{range.first + first, std::min(kNamedElements, range.count - first)};
    ZS_ASSIGN_OR_RETURN(const Array memory, Open(part));
    const Array fp32 = staging_.array(DType::kUint8).Slice(half, 4 * part.count).As(DType::kFloat32);
    sent_[1]->Synchronize();
    if (direction == Direction::kUp) {
      host_->elementwise().Convert(*cores_, memory, fp32);
      device_->CopyFromHost(stream, HostBytes(fp32), on_device.Slice(first, part.count));
      stream.Synchronize();
    } else {
      device_->CopyToHost(stream, on_device.Slice(first, part.count), HostBytes(fp32));
      stream.Synchronize();
      host_->elementwise().Convert(*cores_, fp32, memory);
    }
    ZS_RETURN_IF_ERROR(Close(part, /*written=*/direction == Direction::kDown));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::zero
