#include "zeroshard/zero/parts.h"

#include <cstddef>

#include "zeroshard/device/device.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

std::vector<Part> PartsOf(const Layout& layout, int stage, int rank) {
  std::vector<Part> parts;
  for (int s = 0; s < layout.trainable_sections(); ++s) {
    const Holding holding = HoldingOf(layout, stage, rank, s);
    for (int p : layout.sections()[s].parameters) {
      const Parameter& parameter = layout.parameters()[p];
      const Range part = Intersect(parameter.range(), holding.range);
      if (part.count == 0) continue;
      const int64_t first = part.first - holding.range.first;
      parts.push_back({.parameter = p,
                       .section = s,
                       .group = parameter.spec.group,
                       .held = {first, part.count},
                       .state_first = holding.state_first + first});
    }
  }
  return parts;
}

std::vector<std::span<const Part>> BySection(std::span<const Part> parts) {
  std::vector<std::span<const Part>> sections;
  while (!parts.empty()) {
    size_t count = 1;
    while (count < parts.size() && parts[count].section == parts.front().section) ++count;
    sections.push_back(parts.first(count));
    parts = parts.subspan(count);
  }
  return sections;
}

Range HullOf(std::span<const Part> of_section) {
  const int64_t first = of_section.front().held.first;
  return {first, of_section.back().held.end() - first};
}

void AddSquaresOf(device::Stream& stream, std::span<const Part> of_section, const device::Array& held, device::InOut sum) {
  const Range hull = HullOf(of_section);
  device::Pieces<device::Plain> pieces;
  const auto add = [&] {
    if (pieces.empty()) return;
    stream.device().step().AddPowers(stream, held.Slice(hull.first, hull.count), pieces, 2, sum);
    pieces.Clear();
  };
  for (const Part& part : of_section) {
    if (part.frozen) continue;
    if (pieces.full()) add();
    pieces.Add({.first = part.held.first - hull.first, .count = part.held.count});
  }
  add();
}

std::vector<optim::Run> RunsOf(const Layout& layout, const std::vector<Part>& parts) {
  std::vector<optim::Run> runs;
  for (const Part& part : parts) {
    const std::vector<int64_t>& shape = layout.parameters()[part.parameter].spec.shape;
    const bool whole = shape.size() == 2 && shape[0] * shape[1] == part.held.count;
    runs.push_back({.first = part.state_first,
                    .count = part.held.count,
                    .group = part.group,
                    .rows = whole ? shape[0] : 0,
                    .columns = whole ? shape[1] : 0});
  }
  return runs;
}

}  // namespace zeroshard::zero
