#include "zeroshard/device/cuda/ptx/parser.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/ptx/body_parser.h"
#include "zeroshard/device/cuda/ptx/operations.h"
#include "zeroshard/device/cuda/ptx/token.h"
#include "zeroshard/device/round_up.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// Shared memory that several kernels use; each has all of it.
void ParseSharedVariable(Tokens& tokens, Program& callees, Scopes& names) {
  const Declaration declaration = ParseDeclaration(tokens);
  tokens.Expect(";");
  names.AddVariable(declaration.name, Place(callees.shared_bytes, declaration));
}

// Initialised bytes, the only other variables that a module has.
void ParseModuleVariable(Tokens& tokens, Module& module, Scopes& names) {
  const Declaration declaration = ParseDeclaration(tokens);
  const auto at = static_cast<size_t>(RoundUp(static_cast<int64_t>(module.constants.size()), 16));
  module.constants.resize(at + declaration.bytes);
  if (tokens.Take("=")) {
    if (declaration.element_bytes != 1) tokens.Refuse("initial values of more than a byte");
    tokens.Expect("{");
    size_t next = at;
    do module.constants[next++] = static_cast<std::byte>(tokens.Integer());
    while (tokens.Take(","));
    tokens.Expect("}");
  }
  tokens.Expect(";");
  names.AddVariable(declaration.name, {kModuleAddress + at, declaration.bytes});
}

// Where kernels and functions with a body begin, behind ".entry" or ".func".
struct Definitions {
  std::vector<size_t> kernels, functions;
};

Definitions FindDefinitions(Tokens& tokens, Module& module, Program& callees, Scopes& names) {
  Definitions found;
  while (!tokens.AtEnd()) {
    const std::string_view word = tokens.Next();
    if (word == ".version" || word == ".target" || word == ".address_size") {
      tokens.Next();
    } else if (word == ".global") {
      ParseModuleVariable(tokens, module, names);
    } else if (word == ".shared") {
      ParseSharedVariable(tokens, callees, names);
    } else if (word == ".entry" || word == ".func") {
      const size_t at = tokens.position();
      while (tokens.Peek() != "{" && tokens.Peek() != ";") tokens.Next();
      if (tokens.Take(";")) continue;  // declared, and defined further on
      tokens.SkipBraces();
      (word == ".entry" ? found.kernels : found.functions).push_back(at);
    } else if (word != ".visible" && word != ".weak") {
      tokens.Refuse(absl::StrCat("\"", std::string(word), "\" before it is unknown"));
    }
  }
  return found;
}

}  // namespace

Module Parse(std::string_view text) {
  Tokens tokens(text);
  Module module;
  Scopes names;
  names.Open();
  // What kernels call comes first in each kernel's registers, memory and instructions.
  Program callees;
  callees.registers = kCarryRegister + 1;
  const Definitions definitions = FindDefinitions(tokens, module, callees, names);
  Functions functions;
  for (const size_t at : definitions.functions) {
    tokens.Seek(at);
    BodyParser(tokens, callees, functions, names).ParseFunction();
  }
  for (const size_t at : definitions.kernels) {
    tokens.Seek(at);
    Program kernel = callees;
    BodyParser(tokens, kernel, functions, names).ParseKernel();
    std::string name = kernel.name;
    module.kernels.emplace(std::move(name), std::move(kernel));
  }
  return module;
}

}  // namespace zeroshard::device::cuda::ptx
