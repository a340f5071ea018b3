// The choice that somebody who misspelt a word most likely meant.
//
// Example:
//   Nearest("stge", {"stage", "steps", "store"});       // "stage"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::tools {

// The choice at the least edit distance (insert, delete, replace, swap neighbours); the first of several. `choices` is not empty.
std::string Nearest(std::string_view word, const std::vector<std::string>& choices);

}  // namespace zeroshard::tools
