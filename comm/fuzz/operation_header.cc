// What a peer says of its operation: briefs, headers, lists of keys, tokens; and the data that follows. A rank that believes none of it ends
// its operation well or with a status, and reads none of its peers' memory beyond what they have.
#include "zeroshard/comm/operation_header.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/comm/schedules/exchange.h"
#include "zeroshard/comm/schedules/run_schedule.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::comm {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kCount = 24;
constexpr uint64_t kMyKey = 7, kTheirKey = 9;

// Gives every receive the next bytes of the input, and fails when there are no more.
class PeersThatSay final : public Transport {
 public:
  explicit PeersThatSay(std::string bytes) : bytes_(std::move(bytes)) {}
  int rank() const override { return 0; }
  int world_size() const override { return kRanks; }
  std::string_view name() const override { return "fuzz"; }
  Transfer Send(int, Channel, const void*, int64_t) override { return {1}; }
  Transfer Receive(int, Channel, void* data, int64_t bytes) override {
    if (bytes_.size() - at_ < static_cast<size_t>(bytes)) return {2};
    std::memcpy(data, bytes_.data() + at_, static_cast<size_t>(bytes));
    at_ += static_cast<size_t>(bytes);
    return {1};
  }
  absl::Status Wait(Transfer transfer, Deadline) override {
    return transfer.id == 1 ? absl::OkStatus() : absl::UnavailableError("the peer is gone");
  }
  void Cancel(const absl::Status&) override {}
  void Quiesce() override {}
  void OnPeerFailed(std::function<void(int, const absl::Status&)>) override {}
  bool maps_memory() const override { return true; }
  uint64_t MapKey(const void*, int64_t) override { return kMyKey; }
  void* MappedAddress(int, uint64_t key, int64_t bytes) override {
    return key == kTheirKey && bytes <= static_cast<int64_t>(memory_.size()) ? memory_.data() : nullptr;
  }
  absl::StatusOr<std::unique_ptr<Transport>> Split(const SplitSpec&) override { return absl::UnimplementedError("split"); }

 private:
  const std::string bytes_;
  size_t at_ = 0;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kRanks * kCount * sizeof(float));
};

// The call of this rank: the first byte of an input chooses it.
struct Call {
  explicit Call(uint8_t choice) : buffer(kRanks * kCount + kCount) {
    const OpKind kinds[] = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                            OpKind::kReduce,    OpKind::kBroadcast,     OpKind::kBarrier};
    operation.kind = kinds[choice % std::size(kinds)];
    const bool small = (choice & 0x40) != 0;
    const int64_t count = small ? 1 : kCount;
    operation.sequence = 5;
    operation.count = count;
    operation.label = "block 3";
    operation.in_dtype = operation.out_dtype = device::DType::kFloat32;
    if (operation.kind == OpKind::kReduce || operation.kind == OpKind::kBroadcast) operation.root = 1;
    host.kind = operation.kind;
    host.in = host.out = device::DType::kFloat32;
    host.root = operation.root;
    auto* const bytes = reinterpret_cast<std::byte*>(buffer.data());
    const bool two = (choice & 0x80) != 0 && !small;
    for (int i = 0; i < (two ? 2 : 1) && operation.kind != OpKind::kBarrier; ++i) {
      const int64_t part = two ? count / 2 : count;
      segments[static_cast<size_t>(i)] = {
          .in = bytes + i * part * 4, .out = bytes + i * part * 4, .count = part, .stride = count};
    }
    if (operation.kind != OpKind::kBarrier) host.segments = {segments.data(), two ? size_t{2} : size_t{1}};
  }
  OperationHeader Header() const {
    OperationHeader header = MakeHeader(operation, 0, kRanks);
    header.segments = static_cast<int32_t>(host.segments.size());
    header.schedules = static_cast<uint8_t>(ScheduleChoice::kDirect);
    return header;
  }
  std::vector<float> buffer;
  std::array<HostSegment, 2> segments = {};
  Operation operation;
  HostCall host;
};

void HearOut(const std::string& input) {
  Call call(static_cast<uint8_t>(input[0]));
  PeersThatSay transport(input.substr(1));
  WireLedger ledger;
  std::vector<std::byte> scratch(size_t{1} << 16);
  Exchange exchange(transport, ledger, scratch, PeersOf(0, kRanks, ScheduleChoice::kDirect), Exchange::Meeting::kAll);
  OperationHeader mine = call.Header();
  exchange.Tell(mine, call.host, Traffic::kData);
  if (exchange.Hear(mine, std::chrono::steady_clock::now()).ok())
    (void)RunSchedule(exchange, call.host, {.choice = ScheduleChoice::kDirect});
}

void Compare(const std::string& input) {
  OperationHeader theirs;
  std::memcpy(&theirs, input.data(), std::min(input.size(), sizeof(theirs)));
  (void)Describe(theirs);
  const OperationHeader mine = Call(0).Header();
  const absl::Status agreed = CheckAgreement(mine, theirs, 1);
  // Whoever agrees would do the same.
  if (agreed.ok()) CHECK(theirs.count == mine.count && theirs.kind == mine.kind && theirs.in_dtype == mine.in_dtype);
}

}  // namespace
}  // namespace zeroshard::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  zeroshard::comm::Compare(input);
  if (!input.empty()) zeroshard::comm::HearOut(input);
  return 0;
}

// Peers that agree, and their data; and one that does not: of each call, by messages and by mapped memory.
std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::comm;  // NOLINT(google-build-using-namespace)
  std::vector<std::string> seeds;
  for (const int choice : {0, 1, 2, 3, 4, 5, 0x40, 0x80, 0x81, 0x82}) {
    for (const bool mapped : {false, true}) {
      std::string seed(1, static_cast<char>(choice));
      OperationHeader header = Call(static_cast<uint8_t>(choice)).Header();
      if ((choice & 0x40) != 0) header.carried = sizeof(float);
      for (const int rank : {1, 2}) {
        OperationBrief brief;
        brief.digest = Digest(header);
        brief.keys = {kTheirKey, kTheirKey};
        brief.rank = rank;
        brief.mapped = mapped ? 1 : 0;
        seed += BytesOf(brief);
      }
      if (!mapped) {  // The second disagrees.
        std::string other = seed.substr(0, seed.size() - sizeof(OperationBrief)) + std::string(sizeof(OperationBrief), '?');
        header.rank = 2;
        header.count += 1;
        seeds.push_back(other + BytesOf(header));
      }
      for (uint64_t key = 0; mapped && key < 8; ++key) seed += BytesOf(kTheirKey);
      seeds.push_back(seed + std::string(kRanks * kCount * sizeof(float), 'x'));
    }
  }
  return seeds;
}
