#include "zeroshard/comm/testing/collective_case.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/testing/reference.h"

namespace zeroshard::comm::testing {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Elements of a side that has a part for every rank, or one.
int64_t Extent(int parts, int64_t count, int64_t stride) { return count == 0 ? 0 : (parts - 1) * stride + count; }

uint64_t SeedOf(const Case& c, size_t segment) { return c.seed * 1000 + segment; }

}  // namespace

std::string Describe(const Case& c) {
  return absl::StrCat(std::string(Name(c.kind)), " ", std::string(Name(c.op)), " ", std::string(Name(c.in)), " -> ",
                      std::string(Name(c.out)), ", counts ", absl::StrJoin(c.counts, "+"), ", gap ", c.gap,
                      c.in_place ? ", in place" : "", ", root ", c.root, c.wait_at_once ? ", at once" : "", ", seed ",
                      c.seed);
}

int64_t DirectBytes(const Case& c, int rank, int world_size) {
  int64_t bytes = 0;
  for (const int64_t count : c.counts) {
    const int64_t in = count * SizeOf(c.in);
    const int64_t out = count * SizeOf(c.out);
    const int64_t own = count / world_size + (rank < count % world_size ? 1 : 0);
    switch (c.kind) {
      case OpKind::kReduceScatter:
      case OpKind::kAllGather:
        bytes += (world_size - 1) * in;
        break;
      case OpKind::kAllReduce:
        if (c.counts.size() == 1 && in <= 16) return (world_size - 1) * in;  // It goes with the header.
        bytes += in - own * SizeOf(c.in) + (world_size - 1) * own * SizeOf(c.out);
        break;
      case OpKind::kReduce:
        bytes += rank == c.root ? 0 : in;
        break;
      case OpKind::kBroadcast:
        bytes += rank == c.root ? (world_size - 1) * out : 0;
        break;
      case OpKind::kBarrier:
      case OpKind::kFinalize:
        break;
    }
  }
  return bytes;
}

CaseOnRank::CaseOnRank(Communicator& communicator, const Case& c)
    : communicator_(communicator),
      case_(c),
      rank_(communicator.rank()),
      world_size_(communicator.world_size()),
      stream_(communicator.device().MakeStream(device::StreamKind::kCompute)),
      ready_(communicator.device().MakeEvent()) {
  image_.assign(static_cast<size_t>(Layout()), std::byte{0xab});
  const int64_t bytes = static_cast<int64_t>(image_.size());
  buffer_ = case_.registered ? *communicator.Allocate(bytes, device::Use::kData, "case")
                             : *communicator.device().Allocate(bytes, device::Use::kData, "case");
  for (Place& place : places_) {
    const bool scatters = case_.kind == OpKind::kReduceScatter;
    const bool gathers = case_.kind == OpKind::kAllGather;
    const int64_t count = place.segment.stride - case_.gap;
    place.segment.in = device::Array(buffer_.array(case_.in).address() + static_cast<uint64_t>(place.in_bytes),
                                     Extent(scatters ? world_size_ : 1, count, place.segment.stride), case_.in);
    place.segment.out = device::Array(buffer_.array(case_.in).address() + static_cast<uint64_t>(place.out_bytes),
                                      Extent(gathers ? world_size_ : 1, count, place.segment.stride), case_.out);
    if (case_.kind == OpKind::kReduce && rank_ != case_.root) place.segment.out = {};
    if (case_.kind == OpKind::kBroadcast && rank_ != case_.root) place.segment.in = {};
    segments_.push_back(place.segment);
  }
  FillInputs();
  communicator_.device().CopyFromHost(*stream_, image_.data(), buffer_.array(device::DType::kUint8));
  stream_->Record(*ready_);
  stream_->Synchronize();
}

CaseOnRank::~CaseOnRank() { stream_->Synchronize(); }

int64_t CaseOnRank::Layout() {
  int64_t at = 64;
  for (const int64_t count : case_.counts) {
    Place place;
    place.segment.stride = count + case_.gap;
    const int64_t in =
        Extent(case_.kind == OpKind::kReduceScatter ? world_size_ : 1, count, place.segment.stride) * SizeOf(case_.in);
    const int64_t out =
        Extent(case_.kind == OpKind::kAllGather ? world_size_ : 1, count, place.segment.stride) * SizeOf(case_.out);
    const int64_t own = rank_ * place.segment.stride * SizeOf(case_.in);
    place.in_bytes = at;
    place.out_bytes = at + Aligned(in);
    if (case_.in_place) {
      place.out_bytes = at + (case_.kind == OpKind::kReduceScatter ? own : 0);
      place.in_bytes = at + (case_.kind == OpKind::kAllGather ? own : 0);
    }
    at += Aligned(in) + Aligned(out) + 64;
    places_.push_back(place);
  }
  return at;
}

void CaseOnRank::FillInputs() {
  if (case_.kind == OpKind::kBroadcast && rank_ != case_.root) return;
  const int parts = case_.kind == OpKind::kReduceScatter ? world_size_ : 1;
  const int64_t size = SizeOf(case_.in);
  for (size_t s = 0; s < places_.size(); ++s) {
    const int64_t count = case_.counts[s];
    for (int p = 0; p < parts; ++p) {
      for (int64_t i = 0; i < count; ++i) {
        std::byte* at = image_.data() + places_[s].in_bytes + (p * places_[s].segment.stride + i) * size;
        PutElement(case_.in, SeedOf(case_, s), rank_, p * count + i, at);
      }
    }
  }
}

// What part `part` of segment s must be, from `to_bytes` on.
void CaseOnRank::ExpectPart(size_t s, int part, int64_t to_bytes) {
  const int64_t count = case_.counts[s];
  const bool reduces = IsReduction(case_.kind);
  const int first = case_.kind == OpKind::kReduceScatter ? part : 0;
  std::vector<std::array<std::byte, 8>> elements(static_cast<size_t>(world_size_));
  std::vector<const std::byte*> ranks;
  for (const auto& element : elements) ranks.push_back(element.data());
  for (int64_t i = 0; i < count; ++i) {
    std::byte* at = image_.data() + to_bytes + i * SizeOf(case_.out);
    if (!reduces) {
      PutElement(case_.in, SeedOf(case_, s), case_.kind == OpKind::kAllGather ? part : case_.root, i, at);
      continue;
    }
    for (int r = 0; r < world_size_; ++r) {
      PutElement(case_.in, SeedOf(case_, s), r, first * count + i, elements[static_cast<size_t>(r)].data());
    }
    ReduceElement(case_.in, case_.out, case_.op, ranks, at);
  }
}

void CaseOnRank::FillExpected() {
  if (case_.kind == OpKind::kBarrier || (case_.kind == OpKind::kReduce && rank_ != case_.root)) return;
  for (size_t s = 0; s < places_.size(); ++s) {
    const int parts = case_.kind == OpKind::kAllGather ? world_size_ : 1;
    for (int p = 0; p < parts; ++p) {
      const int64_t to = places_[s].out_bytes + p * places_[s].segment.stride * SizeOf(case_.out);
      ExpectPart(s, parts > 1 ? p : rank_, to);
    }
  }
}

Work CaseOnRank::Issue() {
  const CallOptions options{.after = {ready_.get()}, .wait_at_once = case_.wait_at_once, .label = "case"};
  switch (case_.kind) {
    case OpKind::kAllReduce:
      return communicator_.AllReduce(segments_, case_.op, options);
    case OpKind::kReduceScatter:
      return communicator_.ReduceScatter(segments_, case_.op, options);
    case OpKind::kAllGather:
      return communicator_.AllGather(segments_, options);
    case OpKind::kReduce:
      return communicator_.Reduce(segments_, case_.op, case_.root, options);
    case OpKind::kBroadcast:
      return communicator_.Broadcast(segments_, case_.root, options);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      break;
  }
  return communicator_.Barrier(options);
}

void CaseOnRank::Check(Work& work) {
  FillExpected();
  std::vector<std::byte> got(image_.size());
  work.WaitOn(*stream_);
  communicator_.device().CopyToHost(*stream_, buffer_.array(device::DType::kUint8), got.data());
  stream_->Synchronize();
  const absl::Status ended = work.Wait();
  ASSERT_TRUE(ended.ok()) << "rank " << rank_ << " of " << world_size_ << ", " << Describe(case_) << ": " << ended;
  const auto [want, have] = std::mismatch(image_.begin(), image_.end(), got.begin());
  if (want == image_.end()) return;
  std::string places;
  for (const Place& place : places_) absl::StrAppend(&places, " in ", place.in_bytes, " out ", place.out_bytes);
  ADD_FAILURE() << "rank " << rank_ << " of " << world_size_ << ", " << Describe(case_) << ": byte " << want - image_.begin()
                << " is " << static_cast<int>(*have) << " and not " << static_cast<int>(*want) << ";" << places;
}

}  // namespace zeroshard::comm::testing
