#include "zeroshard/comm/operation.h"

#include "zeroshard/comm/operation_header.h"

namespace zeroshard::comm {

std::string Describe(const Operation& operation) { return Describe(MakeHeader(operation, /*rank=*/0, /*world_size=*/0)); }

}  // namespace zeroshard::comm
