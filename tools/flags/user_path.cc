#include "zeroshard/tools/flags/user_path.h"

#include <cstdlib>

namespace zeroshard::tools {

std::string UserPath(const std::string& path) {
  const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (path.empty() || path[0] == '/' || folder == nullptr) return path;
  return std::string(folder) + "/" + path;
}

}  // namespace zeroshard::tools
