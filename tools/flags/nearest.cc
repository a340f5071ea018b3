#include "zeroshard/tools/flags/nearest.h"

#include <algorithm>
#include <cstddef>

namespace zeroshard::tools {
namespace {

// The restricted Damerau-Levenshtein distance.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& choices) {
  return *std::min_element(choices.begin(), choices.end(), [&](const std::string& a, const std::string& b) {
    return Distance(word, a) < Distance(word, b);
  });
}

}  // namespace zeroshard::tools
