// Patterns for names: '*' is any run of characters, dots included, '?' is one.
//
// Example:
//   GlobMatches("*.ln_?.weight", "transformer.h.0.ln_1.weight");              // true
//   NearestToGlob("*.ln_3.weight", {"a.ln_1.weight", "a.attn.weight"});       // "a.ln_1.weight"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::tools {

bool GlobMatches(std::string_view pattern, std::string_view name);

// The name that takes the fewest edits (insert, delete, replace) to match; the first of several. `names` is not empty.
std::string NearestToGlob(std::string_view pattern, const std::vector<std::string>& names);

}  // namespace zeroshard::tools
