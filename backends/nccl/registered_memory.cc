#include "zeroshard/backends/nccl/registered_memory.h"

#include <nccl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/rank_words.h"
#include "zeroshard/device/cpu/host_buffer.h"
#include "zeroshard/device/round_up.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// What CUDA maps memory by, and ncclMemAlloc rounds up to.
constexpr int64_t kMappedBytes = int64_t{2} << 20;

bool AllTakeOnePlace(const std::vector<PlaceWords>& places) {
  return std::all_of(places.begin(), places.end(), [&](const PlaceWords& one) { return one == places.front(); });
}
bool AllAskForAsMuch(const std::vector<PlaceWords>& places) {
  return std::all_of(places.begin(), places.end(), [&](const PlaceWords& one) { return one.bytes == places.front().bytes; });
}

}  // namespace

class RegisteredMemory::Owner final : public device::Buffer::Owner {
 public:
  Owner(Part part, int64_t taken_bytes, device::MemoryLedger& ledger, device::Use use, int64_t bytes)
      : part_(std::move(part)), taken_bytes_(taken_bytes), ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
    ledger_.AddGranularity(-bytes_);
  }
  ~Owner() override {
    ledger_.AddGranularity(bytes_);
    ledger_.Credit(use_, bytes_);
    part_.piece->Give(part_.offset, taken_bytes_);
  }

 private:
  const Part part_;
  const int64_t taken_bytes_;
  device::MemoryLedger& ledger_;
  const device::Use use_;
  const int64_t bytes_;
};

template <class T>
absl::StatusOr<std::vector<T>> RegisteredMemory::Tell(const char* about, const std::string& mine,
                                                      absl::StatusOr<T> (*parse)(int rank, std::string_view value)) {
  comm::Store& store = options_.notes->store();
  const auto key = [&](int rank) { return absl::StrCat("memory/", allocations_, "/", about, "/", rank); };
  ZS_RETURN_IF_ERROR(store.Set(key(options_.rank), mine));
  std::vector<T> said;
  for (int r = 0; r < options_.world_size; ++r) {
    ZS_ASSIGN_OR_RETURN(const std::string value, store.Get(key(r), options_.timeout));
    ZS_ASSIGN_OR_RETURN(const auto one, parse(options_.notes->Number(r), value));
    said.push_back(one);
  }
  return said;
}

RegisteredMemory::Part RegisteredMemory::TakeFromPieces(int64_t bytes) {
  std::erase_if(pieces_, [](const auto& piece) { return piece.second.expired(); });
  for (const auto& [number, held] : pieces_) {
    std::shared_ptr<RegisteredPiece> piece = held.lock();
    if (piece == nullptr) continue;
    const std::optional<int64_t> offset = piece->Take(bytes);
    if (offset) return {.piece = std::move(piece), .number = number, .offset = *offset};
  }
  return {};
}

absl::StatusOr<RegisteredMemory::Part> RegisteredMemory::TakeNewPiece(int64_t bytes, bool symmetric, std::string_view what) {
  int64_t piece_bytes = bytes;
  if (symmetric && options_.piece_bytes > 0) {
    piece_bytes = device::RoundUp(std::max(bytes, options_.piece_bytes), std::min(kMappedBytes, options_.piece_bytes));
  }
  auto made = RegisteredPiece::Make({.ledger = &options_.device->ledger(),
                                     .handle = options_.handle,
                                     .thread = options_.thread,
                                     .timeout = options_.timeout},
                                    piece_bytes);
  const auto rooms = Tell("room", FormatYes(made.ok()), &ParseYes);
  if (!made.ok()) {
    return device::AllocationError(absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes: ", made.status().message())),
                                   what, options_.device->ledger());
  }
  ZS_RETURN_IF_ERROR(rooms.status());
  for (size_t r = 0; r < rooms->size(); ++r) {
    if ((*rooms)[r]) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", options_.notes->Number(static_cast<int>(r)), " has no memory for ", std::string(what)));
  }
  ZS_RETURN_IF_ERROR(Register(**made, symmetric, what));
  if (symmetric) pieces_[windows_++] = *made;
  (*made)->Take(bytes);
  return Part{.piece = *std::move(made)};
}

absl::Status RegisteredMemory::Register(RegisteredPiece& piece, bool symmetric, std::string_view what) {
  if (!symmetric) return piece.RegisterAlone(what);
  ZS_ASSIGN_OR_RETURN(const bool window, piece.RegisterWindow());
  ZS_ASSIGN_OR_RETURN(const std::vector<bool> windows, Tell("window", FormatYes(window), &ParseYes));
  if (std::find(windows.begin(), windows.end(), false) == windows.end()) return absl::OkStatus();
  return piece.RegisterAlone(what);
}

// On NCCL's thread, whose stream it is; what this one knows of the memory's last use goes with the event.
absl::Status RegisteredMemory::Zero(const Part& part, int64_t bytes) {
  const std::shared_ptr<device::Event> zeroed = options_.device->MakeEvent();
  zeroed->Expect();
  const device::Array all(part.piece->address() + static_cast<uint64_t>(part.offset), bytes, device::DType::kUint8);
  ZS_RETURN_IF_ERROR(options_.thread->Call(
      "zeroing memory",
      [all, zeroed, &device = *options_.device, &stream = *options_.stream] {
        device.elementwise().Fill(stream, all, 0);
        stream.Record(*zeroed);
        return device.status();
      },
      options_.timeout));
  zeroed->Synchronize();
  return absl::OkStatus();
}

absl::StatusOr<device::Buffer> RegisteredMemory::Allocate(int64_t bytes, device::Use use, std::string_view what) {
  const int64_t wanted = device::RoundUp(std::max<int64_t>(bytes, 1), NCCL_WIN_REQUIRED_ALIGNMENT);
  ++allocations_;
  Part part = TakeFromPieces(wanted);
  const auto give_back = [&] {
    if (part.piece != nullptr) part.piece->Give(part.offset, wanted);
    part = {};
  };
  const auto places = Tell("place", FormatPlace({.bytes = bytes, .piece = part.number, .offset = part.offset}), &ParsePlace);
  const bool one_place = places.ok() && part.piece != nullptr && AllTakeOnePlace(*places);
  if (!one_place) give_back();
  ZS_RETURN_IF_ERROR(places.status());
  if (!one_place) {
    ZS_ASSIGN_OR_RETURN(part, TakeNewPiece(wanted, AllAskForAsMuch(*places), what));
  }
  const uint64_t address = part.piece->address() + static_cast<uint64_t>(part.offset);
  auto owner = std::make_unique<Owner>(part, wanted, options_.device->ledger(), use, bytes);
  ZS_RETURN_IF_ERROR(Zero(part, wanted));
  return device::Buffer(address, bytes, std::move(owner));
}

}  // namespace zeroshard::backends
