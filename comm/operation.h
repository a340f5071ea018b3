// Operation: one collective as a backend takes it from the face: checked, numbered, its segments copied.
//
// Example: see Communicator::DoStart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/comm/call_options.h"
#include "zeroshard/comm/reduce_op.h"
#include "zeroshard/device/dtype.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/recorder.h"

namespace zeroshard::comm {

enum class OpKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kBarrier, kFinalize };

inline constexpr std::string_view kOpKindNames[] = {"all-reduce", "reduce-scatter", "all-gather", "reduce",
                                                    "broadcast",  "barrier",        "finalize"};
constexpr std::string_view Name(OpKind kind) { return kOpKindNames[static_cast<int>(kind)]; }

constexpr bool IsReduction(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce;
}

// Elements of a segment's part: what one rank gives (all-gather, reduce) or gets.
constexpr int64_t PartElements(OpKind kind, const Segment& segment) {
  return kind == OpKind::kAllGather || kind == OpKind::kReduce ? segment.in.elements() : segment.out.elements();
}

struct Operation {
  OpKind kind = OpKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  device::DType in_dtype = device::DType::kUint8;
  device::DType out_dtype = device::DType::kUint8;
  int root = -1;  // -1: has none
  uint64_t sequence = 0;
  int64_t count = 0;  // elements of all segments: of a part, in reduce-scatter and all-gather
  std::span<const Segment> segments;
  std::array<const device::Event*, kMaxAfter> events = {};
  size_t event_count = 0;
  bool wait_at_once = false;
  Traffic traffic = Traffic::kData;
  std::string_view label;
  std::string_view group;        // of a communicator that was split off: "shard group 0-1"
  device::Event* end = nullptr;  // Expect was called; the backend records it
  device::Recorder::Open record;

  uint64_t ticket = 0;  // the face's

  // What it comes after; none is null.
  std::span<const device::Event* const> after() const { return {events.data(), event_count}; }
};

// "all-reduce #12 'block 3' (sum, bf16 -> fp32, 1024 elements in 2 segments) in shard group 0-1".
std::string Describe(const Operation& operation);

}  // namespace zeroshard::comm
