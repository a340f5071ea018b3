#include "zeroshard/tools/launch/refusal.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {

int Refuse(const absl::Status& status) {
  const char* begin = status.GetPayload(kPlainPayload) ? "" : "error: ";
  std::cerr << absl::StrCat(begin, status.message(), "\n") << std::flush;
  return ExitCodeOf(status, Phase::kStarting);
}

}  // namespace zeroshard::tools
