// Names of a function's body: registers, variables, labels; and the memory that they take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/device/cuda/ptx/program.h"

namespace zeroshard::device::cuda::ptx {

// Where a variable lies in its state space.
struct Variable {
  uint64_t address = 0;
  size_t bytes = 0;
};

// Registers and variables by name; what an inner pair of braces declares hides what is outside.
class Scopes {
 public:
  void Open() { scopes_.emplace_back(); }
  void Close() { scopes_.pop_back(); }
  bool empty() const { return scopes_.empty(); }

  void AddRegister(const std::string& name, uint32_t at) { scopes_.back().registers[name] = at; }
  void AddVariable(const std::string& name, Variable variable) { scopes_.back().variables[name] = variable; }
  std::optional<uint32_t> FindRegister(const std::string& name) const { return Find(name, &Scope::registers); }
  std::optional<Variable> FindVariable(const std::string& name) const { return Find(name, &Scope::variables); }

 private:
  struct Scope {
    std::map<std::string, uint32_t> registers;
    std::map<std::string, Variable> variables;
  };

  template <class T>
  std::optional<T> Find(const std::string& name, std::map<std::string, T> Scope::*names) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = ((*scope).*names).find(name); found != ((*scope).*names).end()) return found->second;
    }
    return std::nullopt;
  }

  std::vector<Scope> scopes_;
};

}  // namespace zeroshard::device::cuda::ptx
