// The part of BodyParser that reads instructions.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/cuda/ptx/body_parser.h"
#include "zeroshard/device/cuda/ptx/operations.h"

namespace zeroshard::device::cuda::ptx {
namespace {

Space FindSpace(const Tokens& tokens, const std::string& name) {
  if (name == "global") return Space::kGlobal;
  if (name == "shared") return Space::kShared;
  if (name == "local") return Space::kLocal;
  if (name == "param") return Space::kParam;
  tokens.Refuse(absl::StrCat("state space ", name, " is unknown"));
}

}  // namespace

uint32_t BodyParser::ConstantRegister(uint64_t value) {
  const auto [entry, is_new] = constants_.try_emplace(value, program_.registers);
  if (is_new) program_.constants.push_back({NewRegister(), value});
  return entry->second;
}

uint32_t BodyParser::Operand() {
  const std::string word(tokens_.Peek());
  if (const auto found = names_.FindRegister(word)) {
    tokens_.Next();
    return *found;
  }
  if (const auto found = names_.FindVariable(word)) {
    tokens_.Next();
    return ConstantRegister(found->address);
  }
  uint64_t bits = 0;
  const bool is_float = absl::StartsWith(word, "0f") || absl::StartsWith(word, "0d");
  if (!is_float) return ConstantRegister(static_cast<uint64_t>(tokens_.Integer()));
  if (!absl::SimpleHexAtoi(word.substr(2), &bits)) tokens_.Refuse("not a float's bits");
  tokens_.Next();
  return ConstantRegister(bits);
}

uint32_t BodyParser::Register() {
  const auto found = names_.FindRegister(std::string(tokens_.Peek()));
  if (!found) tokens_.Refuse("not a register");
  tokens_.Next();
  return *found;
}

template <size_t kMost>
size_t BodyParser::Operands(std::array<uint32_t, kMost>& into) {
  if (!tokens_.Take("{")) {
    into[0] = Operand();
    return 1;
  }
  size_t count = 0;
  do {
    if (count == 4) tokens_.Refuse("more than four elements");
    into[count++] = Operand();
  } while (tokens_.Take(","));
  tokens_.Expect("}");
  return count;
}

void BodyParser::Address(Instruction& i) {
  tokens_.Expect("[");
  i.from[0] = Operand();
  if (tokens_.Take("+")) i.offset = tokens_.Integer();
  tokens_.Expect("]");
}

void BodyParser::ParseInstruction() {
  Instruction i;
  i.line = tokens_.line();
  if (tokens_.Take("@")) {
    i.guard_is_negated = tokens_.Take("!");
    i.guard = Register();
  }
  const std::string name(tokens_.Next());
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts[0] == "ld" || parts[0] == "st" || parts[0] == "atom") {
    ParseMemory(i, parts);
  } else if (name == "bra" || name == "bra.uni") {
    ParseBranch(i);
  } else if (name == "call.uni") {
    ParseCall(i);
  } else if (name == "ret") {
    i.kind = Kind::kReturn;
  } else if (name == "bar.sync") {
    i.kind = Kind::kBarrier;
    if (tokens_.Integer() != 0) tokens_.Refuse("the number before it is another barrier than 0");
  } else if (name == "membar.gl") {
    i.kind = Kind::kFence;
  } else if (name == "shfl.sync.bfly.b32") {
    ParseShuffle(i);
  } else {
    ParseCompute(i, name, parts);
  }
  tokens_.Expect(";");
  program_.instructions.push_back(i);
}

void BodyParser::ParseMemory(Instruction& i, const std::vector<std::string>& parts) {
  i.space = FindSpace(tokens_, parts[1]);
  const Type type = FindType(parts.back());
  if (type.bytes == 0) tokens_.Refuse(absl::StrCat("type ", parts.back(), " is unknown"));
  i.bytes = type.bytes;
  i.extends_sign = type.is_signed;
  size_t elements = 1;
  if (parts[0] == "ld") {
    i.kind = Kind::kLoad;
    elements = Operands(i.to);
    tokens_.Expect(",");
    Address(i);
  } else if (parts[0] == "st") {
    i.kind = Kind::kStore;
    Address(i);
    tokens_.Expect(",");
    std::array<uint32_t, 4> values = {};
    elements = Operands(values);
    std::copy(values.begin(), values.end(), i.from.begin() + 1);
  } else {
    i.kind = Kind::kAtomic;
    i.to[0] = Register();
    tokens_.Expect(",");
    Address(i);
    tokens_.Expect(",");
    i.from[1] = Operand();
    i.combine = FindAtomic(absl::StrCat(parts[2], ".", parts.back()));
    if (i.combine == nullptr) tokens_.Refuse(absl::StrCat("atom.", parts[2], " is unknown"));
  }
  i.elements = static_cast<uint8_t>(elements);
  // Between the space and the type: how many elements, and by which cache.
  for (size_t part = 2; i.kind != Kind::kAtomic && part + 1 < parts.size(); ++part) {
    if (parts[part] != "nc" && parts[part] != absl::StrCat("v", elements))
      tokens_.Refuse(absl::StrCat(".", parts[part], " is unknown"));
  }
}

void BodyParser::ParseCompute(Instruction& i, const std::string& name, const std::vector<std::string>& parts) {
  const size_t results = Operands(i.to);
  size_t operands = 0;
  std::string full = name;
  if (tokens_.Take(",")) {
    if (tokens_.Peek() == "{") {
      full = absl::StrCat("pack", operands = Operands(i.from), ".", parts.back());
    } else {
      do {
        if (operands == i.from.size()) tokens_.Refuse("too many operands");
        i.from[operands++] = Operand();
      } while (tokens_.Take(","));
    }
  }
  if (results > 1) full = absl::StrCat("unpack", results, ".", parts.back());
  i.compute = FindCompute(full);
  if (i.compute == nullptr) tokens_.Refuse(absl::StrCat("instruction ", full, " is unknown"));
}

void BodyParser::ParseShuffle(Instruction& i) {
  i.kind = Kind::kShuffle;
  i.to[0] = Register();
  i.to[1] = tokens_.Take("|") ? Register() : NewRegister();
  for (size_t operand = 0; operand < 4; ++operand) {
    tokens_.Expect(",");
    i.from[operand] = Operand();
  }
}

void BodyParser::ParseBranch(Instruction& i) {
  i.kind = Kind::kBranch;
  branches_.emplace_back(program_.instructions.size(), std::string(tokens_.Next()));
}

void BodyParser::ParseCall(Instruction& i) {
  i.kind = Kind::kCall;
  const auto variables = [&] {
    std::vector<Variable> all;
    tokens_.Expect("(");
    do {
      const auto found = names_.FindVariable(std::string(tokens_.Peek()));
      if (!found) tokens_.Refuse("not a variable");
      tokens_.Next();
      all.push_back(*found);
    } while (tokens_.Take(","));
    tokens_.Expect(")");
    return all;
  };
  const std::vector<Variable> results = variables();
  tokens_.Expect(",");
  const auto found = functions_.find(std::string(tokens_.Peek()));
  if (found == functions_.end()) tokens_.Refuse("no function, or one that is defined further on");
  tokens_.Next();
  tokens_.Expect(",");
  const std::vector<Variable> arguments = variables();
  const Function& function = found->second;
  if (results.size() != function.results.size() || arguments.size() != function.parameters.size()) {
    tokens_.Refuse("the call before it has other arguments than the function");
  }
  Call call;
  call.target = function.first_instruction;
  for (size_t k = 0; k < arguments.size(); ++k) {
    call.arguments.push_back({arguments[k].address, function.parameters[k].address, function.parameters[k].bytes});
  }
  for (size_t k = 0; k < results.size(); ++k) {
    call.results.push_back({function.results[k].address, results[k].address, results[k].bytes});
  }
  i.target = static_cast<uint32_t>(program_.calls.size());
  program_.calls.push_back(std::move(call));
}

}  // namespace zeroshard::device::cuda::ptx
