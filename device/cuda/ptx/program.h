// A kernel's PTX as the machine of this room runs it: one list of instructions over numbered registers.
//
// Names are PTX ISA's, version 9.0. Registers are 64 bits wide and hold smaller values in their low bits; each operation reads as many as
// its type has. Constants and addresses of variables are registers too, which nothing writes. The functions that a kernel calls never call
// themselves, and so have registers and memory of their own in each thread.
//
// Example:
//   const Module module = Parse(text);
//   const Program& kernel = module.kernels.at("_Z4FillPfmf");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zeroshard::device::cuda::ptx {

struct Instruction;

// What an instruction does that touches nothing but its thread's registers.
using Compute = void (*)(uint64_t* registers, const Instruction& instruction);
// What memory becomes, of what is there and an operand.
using Combine = uint64_t (*)(uint64_t there, uint64_t operand);

enum class Kind : uint8_t { kCompute, kLoad, kStore, kAtomic, kBranch, kCall, kReturn, kBarrier, kShuffle, kFence };
enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam };

inline constexpr uint32_t kNoRegister = ~uint32_t{0};
inline constexpr uint32_t kCarryRegister = 0;

struct Instruction {
  Kind kind = Kind::kCompute;
  Compute compute = nullptr;  // of kCompute
  Combine combine = nullptr;  // of kAtomic: what is there, and from[1]

  // Runs only where this predicate is true, or is false.
  uint32_t guard = kNoRegister;
  bool guard_is_negated = false;

  std::array<uint32_t, 4> to = {};
  std::array<uint32_t, 5> from = {};

  // Of kLoad, kStore and kAtomic: `elements` of `bytes` each, at the address in from[0], plus offset.
  Space space = Space::kGlobal;
  uint8_t bytes = 0;
  uint8_t elements = 1;
  bool extends_sign = false;
  int64_t offset = 0;

  uint32_t target = 0;  // of kBranch: an instruction; of kCall: one of Program::calls
  uint32_t line = 0;    // of the text
};

// What a call copies within a thread's memory, before it and when it is back.
struct Call {
  struct Copy {
    size_t from, to, bytes;
  };
  uint32_t target = 0;  // the function's first instruction
  std::vector<Copy> arguments, results;
};

struct Constant {
  uint32_t to;
  uint64_t value;
};

// In a thread's memory.
struct Parameter {
  size_t offset, bytes;
};

struct Program {
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<Call> calls;
  uint32_t registers = 0;
  std::vector<Constant> constants;
  // Registers of %tid.x, %ntid.x, %ctaid.x, %nctaid.x.
  std::array<uint32_t, 4> special = {kNoRegister, kNoRegister, kNoRegister, kNoRegister};

  uint32_t first_instruction = 0;  // Before it are the functions that kernels call.

  std::vector<Parameter> parameters;
  size_t thread_bytes = 0;  // of each thread: parameters, local memory, and what calls hand over
  size_t shared_bytes = 0;
  uint32_t most_threads = 1024;  // .maxntid
};

struct Module {
  std::map<std::string, Program> kernels;
  // Initialised memory that all kernels see, from kModuleAddress on.
  std::vector<std::byte> constants;
};

// Where no memory of the doubles is.
inline constexpr uint64_t kModuleAddress = uint64_t{1} << 60;

}  // namespace zeroshard::device::cuda::ptx
