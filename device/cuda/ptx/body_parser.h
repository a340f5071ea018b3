// Adds a kernel's, or a function's, instructions to a program.
//
// Example:
//   tokens.Seek(behind_entry);
//   BodyParser(tokens, program, functions, names).ParseKernel();
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "zeroshard/device/cuda/ptx/program.h"
#include "zeroshard/device/cuda/ptx/scope.h"
#include "zeroshard/device/cuda/ptx/token.h"

namespace zeroshard::device::cuda::ptx {

// ".align 8 .b8 name[16]", behind the state space.
struct Declaration {
  std::string name;
  size_t bytes = 0, align = 1, element_bytes = 0;
};
Declaration ParseDeclaration(Tokens& tokens);
// The variable behind the `end` bytes that there are.
Variable Place(size_t& end, const Declaration& declaration);

// What a call has to know of a function.
struct Function {
  uint32_t first_instruction = 0;
  std::vector<Variable> parameters, results;
};
using Functions = std::map<std::string, Function>;

class BodyParser {
 public:
  BodyParser(Tokens& tokens, Program& program, Functions& functions, const Scopes& names);

  void ParseKernel();
  void ParseFunction();

 private:
  // Parameters in parentheses, placed in the thread's memory.
  std::vector<Variable> ParseParameters();
  void ParseBody();
  void ParseStatement();
  void ParseRegisters();
  void ParseVariables(std::string_view space);
  void ParseInstruction();
  void ParseMemory(Instruction& i, const std::vector<std::string>& parts);
  void ParseCompute(Instruction& i, const std::string& name, const std::vector<std::string>& parts);
  void ParseShuffle(Instruction& i);
  void ParseCall(Instruction& i);
  void ParseBranch(Instruction& i);
  void ResolveBranches();

  uint32_t NewRegister() { return program_.registers++; }
  // A register that holds `value`.
  uint32_t ConstantRegister(uint64_t value);
  // A register, a number or a variable's address. A number of a float's type is written as its bits.
  uint32_t Operand();
  uint32_t Register();
  // Operands in braces, or one; how many.
  template <size_t kMost>
  size_t Operands(std::array<uint32_t, kMost>& into);
  void Address(Instruction& i);

  Tokens& tokens_;
  Program& program_;
  Functions& functions_;
  Scopes names_;
  std::map<uint64_t, uint32_t> constants_;  // value -> register
  std::map<std::string, uint32_t> labels_;
  std::vector<std::pair<uint32_t, std::string>> branches_;  // instruction, label
};

}  // namespace zeroshard::device::cuda::ptx
