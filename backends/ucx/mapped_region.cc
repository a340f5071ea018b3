#include "zeroshard/backends/ucx/mapped_region.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/await_value.h"
#include "zeroshard/backends/ucx/mapped_card.h"
#include "zeroshard/backends/ucx/sealed_value.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

std::string KeyOf(const MappingOptions& options, std::string_view what, int rank) {
  return absl::StrCat(options.name, "/", std::string(what), "/", rank);
}

absl::StatusOr<std::string> Await(const MappingOptions& options, std::string_view what, int rank) {
  absl::StatusOr<std::string> value =
      AwaitValue(*options.store, KeyOf(options, what, rank), options.deadline, options.given_up);
  if (!absl::IsDeadlineExceeded(value.status())) return value;
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", options.number(rank), " did not allocate its part of shared memory in time"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedRegion>> MappedRegion::Create(const MappingOptions& options, int64_t bytes) {
  std::unique_ptr<MappedRegion> region(new MappedRegion(options.worker, bytes));
  region->peers_.resize(static_cast<size_t>(options.world_size));
  ZS_ASSIGN_OR_RETURN(
      region->memory_,
      options.worker->Map(std::max<size_t>(static_cast<size_t>(bytes), sizeof(MappedCard::proof)), &region->data_));
  ZS_RETURN_IF_ERROR(region->Publish(options));
  ZS_ASSIGN_OR_RETURN(const bool mine, region->MapPeers(options));
  ZS_RETURN_IF_ERROR(options.store->Set(KeyOf(options, "sees", options.rank), mine ? "all" : "not all"));
  bool all = mine;
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer == options.rank) continue;
    ZS_ASSIGN_OR_RETURN(const std::string sees, Await(options, "sees", peer));
    all = all && sees == "all";
  }
  std::memset(region->data_, 0, sizeof(MappedCard::proof));  // Every rank has looked.
  region->mapped_ = all;
  return region;
}

absl::Status MappedRegion::Publish(const MappingOptions& options) {
  MappedCard card;
  card.address = reinterpret_cast<uint64_t>(data_);
  card.bytes = bytes_;
  if (getrandom(card.proof.data(), card.proof.size(), 0) != static_cast<ssize_t>(card.proof.size())) {
    return absl::InternalError("getrandom gave too few bytes");
  }
  std::memset(data_, 0, static_cast<size_t>(bytes_));  // Every page is there from now on.
  std::memcpy(data_, card.proof.data(), card.proof.size());
  ZS_ASSIGN_OR_RETURN(card.key, worker_->PackKey(memory_));
  return options.store->Set(KeyOf(options, "key", options.rank), SealValue("key", FormatCard(card)));
}

// Whether all could be mapped.
absl::StatusOr<bool> MappedRegion::MapPeers(const MappingOptions& options) {
  bool all = true;
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer == options.rank) continue;
    ZS_ASSIGN_OR_RETURN(const std::string sealed, Await(options, "key", peer));
    ZS_ASSIGN_OR_RETURN(const std::string value, OpenValue("key", peer, sealed));
    const std::optional<MappedCard> card = ParseCard(value);
    if (!card.has_value() || card->bytes != bytes_) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", options.number(options.rank), " allocates ", bytes_,
                                                        " bytes where rank ", options.number(peer), " allocates ",
                                                        card.has_value() ? card->bytes : 0, ": all ranks allocate alike"));
    }
    Peer& entry = peers_[static_cast<size_t>(peer)];
    entry.data = worker_->MapPeer(peer, card->key, card->address, &entry.rkey);
    const bool seen = entry.data != nullptr && std::memcmp(entry.data, card->proof.data(), card->proof.size()) == 0;
    VLOG(1) << options.name << ": rank " << options.rank << (seen ? " sees" : " does not see") << " the memory of rank "
            << peer;
    all = all && seen;
  }
  return all;
}

std::unique_ptr<MappedRegion> MappedRegion::OfParts(const std::vector<void*>& parts, int rank, int64_t bytes) {
  std::unique_ptr<MappedRegion> region(new MappedRegion(nullptr, bytes));
  for (void* const part : parts) region->peers_.push_back({.data = part});
  region->data_ = parts[static_cast<size_t>(rank)];
  region->mapped_ = true;
  return region;
}

MappedRegion::~MappedRegion() {
  for (const Peer& peer : peers_) {
    if (peer.rkey != nullptr) worker_->UnmapPeer(peer.rkey);
  }
  if (memory_ != nullptr) worker_->Unmap(memory_);
}

}  // namespace zeroshard::backends
