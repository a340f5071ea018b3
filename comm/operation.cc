#include "zeroshard/comm/operation.h"

#include "zeroshard/comm/operation_header.h"

namespace zeroshard::comm {

std::string Describe(const Operation& operation) {
  std::string text = Describe(MakeHeader(operation, /*rank=*/0, /*world_size=*/0));
  if (!operation.group.empty()) text.append(" in ").append(operation.group);
  return text;
}

}  // namespace zeroshard::comm
