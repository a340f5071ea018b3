#include "zeroshard/integration_tests/peers/shell.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_split.h"

namespace zeroshard::integration_tests {

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> piece;
  for (size_t got = 0; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;) text.append(piece.data(), got);
  return pclose(pipe) == 0 ? text : "";
}

bool Succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

std::vector<std::string> LinesOf(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

}  // namespace zeroshard::integration_tests
