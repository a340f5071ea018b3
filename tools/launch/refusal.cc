#include "zeroshard/tools/launch/refusal.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {

std::string ErrorText(std::string_view begin, std::string_view message) {
  const size_t end = std::min(message.find('\n'), message.size());
  const std::string table(message.substr(std::min(end + 1, message.size())));
  return absl::StrCat(table, table.empty() || table.back() == '\n' ? "" : "\n", std::string(begin),
                      std::string(message.substr(0, end)), "\n");
}

int Refuse(const absl::Status& status) {
  const char* begin = status.GetPayload(kPlainPayload) ? "" : "error: ";
  std::cerr << ErrorText(begin, std::string(status.message())) << std::flush;
  return ExitCodeOf(status, Phase::kStarting);
}

}  // namespace zeroshard::tools
