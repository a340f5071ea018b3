#include "zeroshard/tools/comm_bench_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

using comm::OpKind;
using device::DType;

constexpr int kRoot = 0;

// Half of the distance from 1 to the next value.
double UnitRoundoff(DType dtype) {
  if (dtype == DType::kFloat64) return 0x1p-53;
  return dtype == DType::kBfloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-24;
}

template <class T>
void PutAs(T value, int64_t index, std::byte* to) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
T GetAs(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void Put(DType dtype, double value, int64_t index, std::byte* to) {
  switch (dtype) {
    case DType::kFloat32:
      return PutAs(static_cast<float>(value), index, to);
    case DType::kFloat64:
      return PutAs(value, index, to);
    case DType::kBfloat16:
      return PutAs(device::ToBfloat16(static_cast<float>(value)), index, to);
    case DType::kFloat16:
      return PutAs(device::ToFloat16(static_cast<float>(value)), index, to);
    case DType::kInt32:
      return PutAs(static_cast<int32_t>(value), index, to);
    case DType::kInt64:
      return PutAs(static_cast<int64_t>(value), index, to);
    case DType::kUint8:
      return PutAs(static_cast<uint8_t>(value), index, to);
  }
}

double Get(DType dtype, const std::byte* from, int64_t index) {
  switch (dtype) {
    case DType::kFloat32:
      return GetAs<float>(from, index);
    case DType::kFloat64:
      return GetAs<double>(from, index);
    case DType::kBfloat16:
      return device::ToFloat(GetAs<device::Bfloat16>(from, index));
    case DType::kFloat16:
      return device::ToFloat(GetAs<device::Float16>(from, index));
    case DType::kInt32:
      return GetAs<int32_t>(from, index);
    case DType::kInt64:
      return static_cast<double>(GetAs<int64_t>(from, index));
    case DType::kUint8:
      return GetAs<uint8_t>(from, index);
  }
  return NAN;
}

// As each rank gives them: of floats sevenths, so that every bit counts and sums are rounded.
std::array<double, CommBenchCase::kValues> ValuesOf(DType dtype) {
  std::array<double, CommBenchCase::kValues> values;
  for (int v = 0; v < CommBenchCase::kValues; ++v) {
    std::byte rounded[sizeof(double)];
    Put(dtype, IsFloat(dtype) ? (v + 1) / 7.0 : v, 0, rounded);
    values[static_cast<size_t>(v)] = Get(dtype, rounded, 0);
  }
  return values;
}

bool HasParts(OpKind op) { return op == OpKind::kReduceScatter || op == OpKind::kAllGather; }

int64_t ElementsOf(int64_t bytes, int64_t size, int64_t parts) {
  const int64_t elements = (bytes + size - 1) / size;
  return (elements + parts - 1) / parts * parts;
}

// Elements of the arrays of a collective over `elements` in all, of which a rank has a part.
struct InOut {
  int64_t in, out;
};
InOut ArraysOf(OpKind op, int64_t elements, int64_t part) {
  return {.in = op == OpKind::kAllGather ? part : elements, .out = op == OpKind::kReduceScatter ? part : elements};
}

}  // namespace

CommBenchBytes CommBenchCase::MostBytes(const CommBenchOptions& options, int world_size) {
  CommBenchBytes most;
  const int64_t size = SizeOf(options.dtype);
  for (const OpKind op : options.ops) {
    for (const int64_t bytes : op == OpKind::kBarrier ? std::vector<int64_t>{} : options.sizes) {
      const int64_t parts = HasParts(op) ? world_size : 1;
      const int64_t elements = ElementsOf(bytes, size, parts);
      const auto [in, out] = ArraysOf(op, elements, elements / parts);
      most.device = std::max(most.device, (options.in_place ? elements : in + out) * size);
      most.host = std::max(most.host, std::max(in, out) * size);
    }
  }
  return most;
}

CommBenchCase::CommBenchCase(comm::Communicator& communicator, const CommBenchOptions& options, OpKind op, int64_t bytes)
    : communicator_(communicator),
      options_(options),
      op_(op),
      parts_(HasParts(op) ? communicator.world_size() : 1),
      elements_(op == OpKind::kBarrier ? 0 : ElementsOf(bytes, SizeOf(options.dtype), parts_)),
      values_(ValuesOf(options.dtype)),
      stream_(communicator.device().MakeStream(device::StreamKind::kCompute)) {}

absl::StatusOr<std::unique_ptr<CommBenchCase>> CommBenchCase::Create(comm::Communicator& communicator,
                                                                     const CommBenchOptions& options, OpKind op,
                                                                     int64_t bytes) {
  std::unique_ptr<CommBenchCase> bench(new CommBenchCase(communicator, options, op, bytes));
  if (op != OpKind::kBarrier) ZS_RETURN_IF_ERROR(bench->Allocate());
  return bench;
}

absl::StatusOr<device::Buffer> CommBenchCase::MakeBuffer(int64_t elements, const char* what) {
  const int64_t bytes = elements * SizeOf(options_.dtype);
  if (options_.registered) return communicator_.Allocate(bytes, device::Use::kCommunication, what);
  return communicator_.device().Allocate(bytes, device::Use::kCommunication, what);
}

absl::Status CommBenchCase::Allocate() {
  const int64_t part = elements_ / parts_;
  const int64_t own = communicator_.rank() * part;
  const auto [in, out] = ArraysOf(op_, elements_, part);
  ZS_ASSIGN_OR_RETURN(in_buffer_, MakeBuffer(options_.in_place ? elements_ : in, "input"));
  const device::Array whole = in_buffer_.array(options_.dtype);
  if (options_.in_place) {
    in_ = op_ == OpKind::kAllGather ? whole.Slice(own, part) : whole.Slice(0, elements_);
    out_ = op_ == OpKind::kReduceScatter ? whole.Slice(own, part) : whole.Slice(0, elements_);
    return absl::OkStatus();
  }
  ZS_ASSIGN_OR_RETURN(out_buffer_, MakeBuffer(out, "output"));
  in_ = whole.Slice(0, in);
  out_ = out_buffer_.array(options_.dtype).Slice(0, out);
  return absl::OkStatus();
}

comm::Work CommBenchCase::Issue() {
  const comm::CallOptions call{.wait_at_once = true, .label = "benchmark"};
  switch (op_) {
    case OpKind::kAllReduce:
      return communicator_.AllReduce(in_, out_, comm::ReduceOp::kSum, call);
    case OpKind::kReduceScatter:
      return communicator_.ReduceScatter(in_, out_, comm::ReduceOp::kSum, call);
    case OpKind::kAllGather:
      return communicator_.AllGather(in_, out_, call);
    case OpKind::kReduce:
      return communicator_.Reduce(in_, out_, comm::ReduceOp::kSum, kRoot, call);
    case OpKind::kBroadcast:
      return communicator_.Broadcast(in_, out_, kRoot, call);
    case OpKind::kBarrier:
    case OpKind::kFinalize:
      break;
  }
  return communicator_.Barrier(call);
}

absl::Status CommBenchCase::Run() { return Issue().Wait(); }

// What rank `rank` gives as element `index` of the whole.
double CommBenchCase::Given(int rank, int64_t index) const { return values_[static_cast<size_t>((index + rank) % kValues)]; }

// Writes what this rank gives as elements [first, ...) of the whole, or zeros.
void CommBenchCase::Fill(device::Array array, int64_t first, bool zeros) {
  image_.assign(static_cast<size_t>(array.bytes()), std::byte{0});
  for (int64_t i = 0; !zeros && i < array.elements(); ++i) {
    Put(options_.dtype, Given(communicator_.rank(), first + i), i, image_.data());
  }
  communicator_.device().CopyFromHost(*stream_, image_.data(), array);
  stream_->Synchronize();
}

// Element `index` of the whole, once the collective has ended.
double CommBenchCase::Expected(int64_t index) const {
  if (op_ == OpKind::kBroadcast) return Given(kRoot, index);
  if (op_ == OpKind::kAllGather) return Given(static_cast<int>(index / (elements_ / parts_)), index);
  double sum = 0;
  for (int rank = 0; rank < communicator_.world_size(); ++rank) sum += Given(rank, index);
  return sum;
}

// How far a sum may be from the exact one, by the sum of what is added (all of it positive). By the tree: a rounding of fp32 (of fp64 its
// own) at each of its levels, and one to the dtype. By a library's own order: one of the dtype for each rank but the first.
double CommBenchCase::Tolerance() const {
  if (!comm::IsReduction(op_) || !IsFloat(options_.dtype)) return 0;
  constexpr double kSecondOrder = 1.01;
  const int ranks = communicator_.world_size();
  const double unit = UnitRoundoff(options_.dtype), wide = std::min(unit, UnitRoundoff(DType::kFloat32));
  if (!communicator_.sums_by_tree()) return kSecondOrder * (ranks - 1) * unit;
  return kSecondOrder * (std::ceil(std::log2(ranks)) * wide + (SizeOf(options_.dtype) == 2 ? unit : 0));
}

// Whether `array` holds elements [first, ...) of the expected whole.
bool CommBenchCase::Holds(device::Array array, int64_t first) {
  image_.resize(static_cast<size_t>(array.bytes()));
  communicator_.device().CopyToHost(*stream_, array, image_.data());
  stream_->Synchronize();
  const double tolerance = Tolerance();
  for (int64_t i = 0; i < array.elements(); ++i) {
    const double expected = Expected(first + i);
    if (!(std::fabs(Get(options_.dtype, image_.data(), i) - expected) <= tolerance * expected)) return false;
  }
  return true;
}

absl::StatusOr<bool> CommBenchCase::Verify() {
  const int64_t own = communicator_.rank() * (elements_ / parts_);
  if (op_ != OpKind::kBarrier) {
    Fill(out_, 0, /*zeros=*/true);
    Fill(in_, op_ == OpKind::kAllGather ? own : 0, /*zeros=*/false);
  }
  ZS_RETURN_IF_ERROR(Run());
  const bool has_result = op_ != OpKind::kBarrier && (op_ != OpKind::kReduce || communicator_.rank() == kRoot);
  const bool right = !has_result || Holds(out_, op_ == OpKind::kReduceScatter ? own : 0);
  ZS_ASSIGN_OR_RETURN(const device::Buffer votes,
                      communicator_.device().Allocate(sizeof(int32_t), device::Use::kCommunication, "votes"));
  const device::Array vote = votes.array(DType::kInt32).Slice(0, 1);
  int32_t all = right ? 1 : 0;
  communicator_.device().CopyFromHost(*stream_, &all, vote);
  stream_->Synchronize();
  ZS_RETURN_IF_ERROR(communicator_.AllReduce(vote, vote, comm::ReduceOp::kMin, {.wait_at_once = true}).Wait());
  communicator_.device().CopyToHost(*stream_, vote, &all);
  stream_->Synchronize();
  if (op_ != OpKind::kBarrier) {
    Fill(in_, 0, /*zeros=*/true);
    Fill(out_, 0, /*zeros=*/true);
  }
  return all == 1;
}

}  // namespace zeroshard::tools
