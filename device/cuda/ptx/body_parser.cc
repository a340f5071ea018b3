#include "zeroshard/device/cuda/ptx/body_parser.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/ptx/operations.h"
#include "zeroshard/device/round_up.h"

namespace zeroshard::device::cuda::ptx {
namespace {

constexpr const char* kSpecial[] = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x"};

}  // namespace

Declaration ParseDeclaration(Tokens& tokens) {
  Declaration declaration;
  if (tokens.Take(".align")) declaration.align = static_cast<size_t>(tokens.Integer());
  const Type type = FindType(tokens.Peek().empty() ? "" : tokens.Peek().substr(1));
  if (type.bytes == 0) tokens.Refuse("not a type");
  tokens.Next();
  declaration.element_bytes = type.bytes;
  declaration.align = std::max<size_t>(declaration.align, type.bytes);
  declaration.name = std::string(tokens.Next());
  declaration.bytes = type.bytes;
  while (tokens.Take("[")) {
    declaration.bytes *= static_cast<size_t>(tokens.Integer());
    tokens.Expect("]");
  }
  return declaration;
}

Variable Place(size_t& end, const Declaration& declaration) {
  const auto at = static_cast<uint64_t>(RoundUp(static_cast<int64_t>(end), static_cast<int64_t>(declaration.align)));
  end = at + declaration.bytes;
  return {at, declaration.bytes};
}

BodyParser::BodyParser(Tokens& tokens, Program& program, Functions& functions, const Scopes& names)
    : tokens_(tokens), program_(program), functions_(functions), names_(names) {
  names_.Open();
}

std::vector<Variable> BodyParser::ParseParameters() {
  std::vector<Variable> placed;
  if (!tokens_.Take("(")) return placed;
  while (!tokens_.Take(")")) {
    tokens_.Take(",");
    tokens_.Expect(".param");
    const Declaration declaration = ParseDeclaration(tokens_);
    placed.push_back(Place(program_.thread_bytes, declaration));
    names_.AddVariable(declaration.name, placed.back());
  }
  return placed;
}

void BodyParser::ParseKernel() {
  program_.name = std::string(tokens_.Next());
  program_.first_instruction = static_cast<uint32_t>(program_.instructions.size());
  for (const Variable& parameter : ParseParameters()) {
    program_.parameters.push_back({static_cast<size_t>(parameter.address), parameter.bytes});
  }
  for (size_t i = 0; i < 4; ++i) names_.AddRegister(kSpecial[i], program_.special[i] = NewRegister());
  while (tokens_.Peek() != "{") {
    if (!tokens_.Take(".maxntid")) {
      tokens_.Next();
      continue;
    }
    program_.most_threads = static_cast<uint32_t>(tokens_.Integer());
  }
  ParseBody();
}

void BodyParser::ParseFunction() {
  Function function;
  function.first_instruction = static_cast<uint32_t>(program_.instructions.size());
  function.results = ParseParameters();
  const std::string name(tokens_.Next());
  function.parameters = ParseParameters();
  functions_[name] = std::move(function);
  ParseBody();
}

void BodyParser::ParseBody() {
  tokens_.Expect("{");
  for (int depth = 1; depth > 0;) {
    if (tokens_.Take("{")) {
      ++depth;
      names_.Open();
    } else if (tokens_.Take("}")) {
      --depth;
      names_.Close();
    } else {
      ParseStatement();
    }
  }
  ResolveBranches();
}

void BodyParser::ResolveBranches() {
  for (const auto& [instruction, label] : branches_) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) tokens_.Refuse(absl::StrCat("in the body before it there is no label ", label));
    program_.instructions[instruction].target = found->second;
  }
}

void BodyParser::ParseStatement() {
  if (tokens_.Peek(1) == ":") {
    labels_[std::string(tokens_.Next())] = static_cast<uint32_t>(program_.instructions.size());
    tokens_.Expect(":");
  } else if (tokens_.Take(".reg")) {
    ParseRegisters();
  } else if (tokens_.Take(".pragma")) {
    tokens_.Next();
    tokens_.Expect(";");
  } else if (absl::StartsWith(std::string(tokens_.Peek()), ".")) {
    ParseVariables(tokens_.Next());
  } else {
    ParseInstruction();
  }
}

void BodyParser::ParseRegisters() {
  tokens_.Next();  // the type, which each instruction says again
  do {
    const std::string name(tokens_.Next());
    if (!tokens_.Take("<")) {
      names_.AddRegister(name, NewRegister());
      continue;
    }
    const int64_t count = tokens_.Integer();
    for (int64_t i = 0; i < count; ++i) names_.AddRegister(absl::StrCat(name, i), NewRegister());
    tokens_.Expect(">");
  } while (tokens_.Take(","));
  tokens_.Expect(";");
}

void BodyParser::ParseVariables(std::string_view space) {
  if (space != ".shared" && space != ".local" && space != ".param") {
    tokens_.Refuse(absl::StrCat("\"", std::string(space), "\" before it is unknown"));
  }
  const Declaration declaration = ParseDeclaration(tokens_);
  names_.AddVariable(declaration.name,
                     Place(space == ".shared" ? program_.shared_bytes : program_.thread_bytes, declaration));
  tokens_.Expect(";");
}

}  // namespace zeroshard::device::cuda::ptx
