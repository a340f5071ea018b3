// Debian's Abseil has no status macros.
//
//   ZS_RETURN_IF_ERROR(engine.Unshard(unit));
//   ZS_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(...));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ZS_RETURN_IF_ERROR(expression)        \
  do {                                        \
    ::absl::Status zs_status_ = (expression); \
    if (!zs_status_.ok()) return zs_status_;  \
  } while (false)

#define ZS_CONCAT_INNER_(a, b) a##b
#define ZS_CONCAT_(a, b) ZS_CONCAT_INNER_(a, b)
#define ZS_ASSIGN_OR_RETURN(declaration, expression) \
  ZS_ASSIGN_OR_RETURN_IMPL_(ZS_CONCAT_(zs_statusor_, __LINE__), declaration, expression)
#define ZS_ASSIGN_OR_RETURN_IMPL_(statusor, declaration, expression) \
  auto statusor = (expression);                                      \
  if (!statusor.ok()) return std::move(statusor).status();           \
  declaration = *std::move(statusor)
