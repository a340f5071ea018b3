#include "zeroshard/zero/ownership.h"

#include <algorithm>
#include <numeric>

namespace zeroshard::zero {
namespace {

std::vector<int> Balanced(std::span<const int64_t> elements, int world_size) {
  std::vector<size_t> largest_first(elements.size());
  std::iota(largest_first.begin(), largest_first.end(), size_t{0});
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](size_t a, size_t b) { return elements[a] > elements[b]; });
  std::vector<int64_t> load(world_size);
  std::vector<int> owners(elements.size());
  for (size_t i : largest_first) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += elements[i];
    owners[i] = static_cast<int>(least - load.begin());
  }
  return owners;
}

}  // namespace

std::vector<int> AssignOwners(Ownership owner, std::span<const int64_t> elements, int world_size) {
  if (owner == Ownership::kBalanced) return Balanced(elements, world_size);
  const auto count = static_cast<int64_t>(elements.size());
  const int64_t run = std::max<int64_t>(1, (count + world_size - 1) / world_size);
  std::vector<int> owners(elements.size());
  for (int64_t i = 0; i < count; ++i) {
    owners[i] = static_cast<int>(owner == Ownership::kRoundRobin ? i % world_size : i / run);
  }
  return owners;
}

}  // namespace zeroshard::zero
