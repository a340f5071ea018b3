// Commands by the shell, and what they print.
#pragma once

#include <string>
#include <vector>

namespace zeroshard::integration_tests {

// The standard output of `command` (its errors go to ours); empty where it did not end with 0.
std::string OutputOf(const std::string& command);
bool Succeeds(const std::string& command);
std::vector<std::string> LinesOf(const std::string& text);

}  // namespace zeroshard::integration_tests
