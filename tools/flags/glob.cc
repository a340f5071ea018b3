#include "zeroshard/tools/flags/glob.h"

#include <algorithm>
#include <cstddef>

namespace zeroshard::tools {
namespace {

// Edits after which `name` would match.
size_t Distance(std::string_view pattern, std::string_view name) {
  std::vector<size_t> row(name.size() + 1);
  for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
  for (const char c : pattern) {
    size_t diagonal = row[0];
    if (c != '*') ++row[0];
    for (size_t j = 1; j <= name.size(); ++j) {
      const size_t above = row[j];
      if (c == '*') {
        row[j] = std::min(above, row[j - 1]);
      } else {
        const size_t replaced = diagonal + (c == '?' || c == name[j - 1] ? 0 : 1);
        row[j] = std::min({replaced, above + 1, row[j - 1] + 1});
      }
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view name) { return Distance(pattern, name) == 0; }

std::string NearestToGlob(std::string_view pattern, const std::vector<std::string>& names) {
  return *std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return Distance(pattern, a) < Distance(pattern, b);
  });
}

}  // namespace zeroshard::tools
