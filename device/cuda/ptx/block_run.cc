#include "zeroshard/device/cuda/ptx/block_run.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/ptx/values.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// NaNs, in memory that nobody has written.
constexpr std::byte kUnwritten{0xff};

// What an element of `bytes` becomes in a register.
uint64_t Extended(const std::byte* from, const Instruction& i) {
  uint64_t value = 0;
  std::memcpy(&value, from, i.bytes);
  if (!i.extends_sign) return value;
  const int unused = 64 - 8 * i.bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
}

}  // namespace

BlockRun::BlockRun(const Program& program, const LaunchShape& shape, std::span<const std::byte> parameters,
                   GlobalMemory& memory, BlockMemory& own)
    : program_(program), shape_(shape), parameters_(parameters), memory_(memory), own_(own), threads_(shape.threads) {
  if (program.shared_bytes > kMostSharedBytes) EndTest(absl::StrCat("kernel ", program.name, " has too much shared memory"));
  own.registers.resize(std::max(own.registers.size(), size_t{shape.threads} * program.registers));
  own.threads.resize(std::max(own.threads.size(), shape.threads * program.thread_bytes));
  own.shared.resize(kMostSharedBytes);
  epochs_.launch = memory.NextEpoch();
  for (unsigned t = 0; t < shape.threads; ++t) {
    threads_[t].index = t;
    threads_[t].registers = own.registers.data() + size_t{t} * program.registers;
    threads_[t].memory = own.threads.data() + t * program.thread_bytes;
  }
}

void BlockRun::Run(unsigned block) {
  block_ = block;
  epochs_.block = epochs_.now = memory_.NextEpoch();
  alone_epochs_ = {epochs_.now, epochs_.now, epochs_.now};
  std::fill_n(own_.shared.begin(), program_.shared_bytes, kUnwritten);
  for (Thread& thread : threads_) Begin(thread);
  const unsigned warps = (shape_.threads + kWarpThreads - 1) / kWarpThreads;
  do {
    for (unsigned w = 0; w < warps; ++w) RunWarp((shape_.is_backwards ? warps - 1 - w : w) * kWarpThreads);
  } while (PassBarrier());
}

void BlockRun::Begin(Thread& thread) {
  thread.at = program_.first_instruction;
  thread.state = State::kRuns;
  thread.has_fenced = thread.sees_blocks_before = false;
  thread.changed = 0;
  for (const Constant& constant : program_.constants) thread.registers[constant.to] = constant.value;
  const uint64_t special[] = {thread.index, shape_.threads, block_, shape_.blocks};
  for (size_t i = 0; i < std::size(special); ++i) thread.registers[program_.special[i]] = special[i];
  std::copy(parameters_.begin(), parameters_.end(), thread.memory);
}

void BlockRun::RunThread(Thread& thread) {
  uint64_t* const registers = thread.registers;
  while (true) {
    const Instruction& i = program_.instructions[thread.at];
    ++work_.instructions;
    if (i.guard != kNoRegister && Get<bool>(registers, i.guard) == i.guard_is_negated) {
      ++thread.at;
      continue;
    }
    switch (i.kind) {
      case Kind::kCompute:
        i.compute(registers, i);
        break;
      case Kind::kLoad:
        Load(thread, i);
        break;
      case Kind::kStore:
        Store(thread, i);
        break;
      case Kind::kAtomic:
        Change(thread, i);
        break;
      case Kind::kFence:
        Fence(thread);
        break;
      case Kind::kBranch:
        thread.at = i.target;
        continue;
      case Kind::kCall:
        Enter(thread, i);
        continue;
      case Kind::kReturn:
        if (Return(thread)) continue;
        thread.state = State::kEnded;
        return;
      case Kind::kBarrier:
        thread.state = State::kAtBarrier;
        return;
      case Kind::kShuffle:
        thread.state = State::kAtShuffle;
        return;
    }
    ++thread.at;
  }
}

void BlockRun::RunWarp(unsigned first) {
  const unsigned end = std::min(first + kWarpThreads, shape_.threads);
  bool shuffles = true;
  while (shuffles) {
    shuffles = false;
    for (unsigned k = first; k < end; ++k) {
      Thread& thread = threads_[shape_.is_backwards ? first + end - 1 - k : k];
      if (thread.state == State::kRuns) RunThread(thread);
      shuffles |= thread.state == State::kAtShuffle;
    }
    if (shuffles) Shuffle(first);
  }
}

// PTX ISA, shfl.sync: the mode bfly with c = 31 and all lanes, as __shfl_xor_sync makes it.
void BlockRun::Shuffle(unsigned first) {
  if (first + kWarpThreads > shape_.threads) Refuse(threads_[first], "a shuffle of a warp that is not whole");
  uint32_t values[kWarpThreads];
  for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
    const Thread& thread = threads_[first + lane];
    if (thread.state != State::kAtShuffle || thread.at != threads_[first].at) {
      Refuse(thread, "not at the shuffle of its warp's other threads");
    }
    const Instruction& i = program_.instructions[thread.at];
    if (Get<uint32_t>(thread.registers, i.from[3]) != ~uint32_t{0} || Get<uint32_t>(thread.registers, i.from[2]) != 31) {
      Refuse(thread, "a shuffle of other lanes than all");
    }
    values[lane] = Get<uint32_t>(thread.registers, i.from[0]);
  }
  for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
    Thread& thread = threads_[first + lane];
    const Instruction& i = program_.instructions[thread.at];
    const uint32_t from = lane ^ (Get<uint32_t>(thread.registers, i.from[1]) & 31);
    thread.registers[i.to[0]] = values[from];
    thread.registers[i.to[1]] = 1;
    thread.state = State::kRuns;
    ++thread.at;
  }
}

bool BlockRun::PassBarrier() {
  const auto ended = [](const Thread& thread) { return thread.state == State::kEnded; };
  if (std::all_of(threads_.begin(), threads_.end(), ended)) return false;
  const uint32_t barrier = threads_[0].at;
  for (Thread& thread : threads_) {
    if (ended(thread) || thread.at != barrier) Refuse(thread, "not at the barrier of its block's other threads");
    thread.state = State::kRuns;
    ++thread.at;
  }
  alone_epochs_.now = epochs_.now = memory_.NextEpoch();
  return true;
}

BlockRun::Place BlockRun::Find(const Thread& thread, const Instruction& i) {
  const auto bytes = static_cast<uint64_t>(i.bytes) * i.elements;
  const uint64_t base = i.space == Space::kShared ? Get<uint32_t>(thread.registers, i.from[0]) : thread.registers[i.from[0]];
  const uint64_t address = base + static_cast<uint64_t>(i.offset);
  const auto named = [&] { return absl::StrCat(bytes, " bytes at ", absl::Hex(address)); };
  if (address % bytes != 0) Refuse(thread, absl::StrCat(named(), " are not aligned"));
  if (i.space == Space::kGlobal) {
    const GlobalMemory::Found found = memory_.Find(address, static_cast<int64_t>(bytes));
    if (found.host == nullptr) Refuse(thread, absl::StrCat(named(), " are in no memory of the device"));
    work_.bytes += bytes;
    return {found.host, found.log, thread.sees_blocks_before ? &alone_epochs_ : &epochs_, found.offset};
  }
  const bool is_shared = i.space == Space::kShared;
  const size_t size = is_shared ? program_.shared_bytes : program_.thread_bytes;
  if (address > size || bytes > size - address) Refuse(thread, absl::StrCat(named(), " are outside of ", size));
  if (!is_shared) return {thread.memory + address};
  return {own_.shared.data() + address, &own_.shared_log, &alone_epochs_, address};
}

void BlockRun::Load(Thread& thread, const Instruction& i) {
  const Place place = Find(thread, i);
  for (size_t k = 0; k < i.elements; ++k) {
    const size_t at = k * i.bytes;
    if (place.log != nullptr && place.log->Read(*place.epochs, place.offset + at, thread.index)) {
      Refuse(thread, "reads what another thread writes, with no barrier between");
    }
    thread.registers[i.to[k]] = Extended(place.host + at, i);
  }
}

void BlockRun::Store(Thread& thread, const Instruction& i) {
  const Place place = Find(thread, i);
  if (i.space == Space::kGlobal && place.log == nullptr) Refuse(thread, "writes a constant");
  for (size_t k = 0; k < i.elements; ++k) {
    const size_t at = k * i.bytes;
    if (place.log != nullptr && place.log->Write(*place.epochs, place.offset + at, thread.index, /*is_atomic=*/false)) {
      Refuse(thread, "writes what another thread reads or writes, with no barrier between");
    }
    std::memcpy(place.host + at, thread.registers + i.from[k + 1], i.bytes);
  }
}

void BlockRun::Change(Thread& thread, const Instruction& i) {
  const Place place = Find(thread, i);
  if (place.log == nullptr || place.log->Write(*place.epochs, place.offset, thread.index, /*is_atomic=*/true)) {
    Refuse(thread, "changes what another thread reads or writes, with no barrier between");
  }
  const uint64_t before = Extended(place.host, i), after = i.combine(before, thread.registers[i.from[1]]);
  std::memcpy(place.host, &after, i.bytes);
  thread.registers[i.to[0]] = before;
  thread.changed = thread.registers[i.from[0]] + static_cast<uint64_t>(i.offset);
  if (!thread.has_fenced) return;
  Released& released = released_[thread.changed];
  if (released.blocks == 0 || released.last != block_) ++released.blocks;
  released.last = block_;
}

void BlockRun::Fence(Thread& thread) {
  thread.has_fenced = true;
  const auto found = released_.find(thread.changed);
  if (found == released_.end()) return;
  const unsigned others = found->second.blocks - (found->second.last == block_ ? 1 : 0);
  thread.sees_blocks_before |= others == block_;
}

void BlockRun::Enter(Thread& thread, const Instruction& i) {
  const Call& call = program_.calls[i.target];
  for (const Call::Copy& copy : call.arguments) std::memcpy(thread.memory + copy.to, thread.memory + copy.from, copy.bytes);
  thread.calls.push_back(&i);
  thread.at = call.target;
}

bool BlockRun::Return(Thread& thread) {
  if (thread.calls.empty()) return false;
  const Instruction& from = *thread.calls.back();
  thread.calls.pop_back();
  const Call& call = program_.calls[from.target];
  for (const Call::Copy& copy : call.results) std::memcpy(thread.memory + copy.to, thread.memory + copy.from, copy.bytes);
  thread.at = static_cast<uint32_t>(&from - program_.instructions.data()) + 1;
  return true;
}

void BlockRun::Refuse(const Thread& thread, const std::string& why) const {
  EndTest(absl::StrCat("kernel ", program_.name, ", line ", program_.instructions[thread.at].line, " of its PTX, block ",
                       block_, ", thread ", thread.index, ": ", why));
}

}  // namespace zeroshard::device::cuda::ptx
