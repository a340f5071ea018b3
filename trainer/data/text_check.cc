#include "zeroshard/trainer/data/text_check.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"

namespace zeroshard::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWindowBytes = 1 << 20;
constexpr int64_t kCheckedBytes = int64_t{1} << 30;
constexpr int64_t kToleratedOneIn = 100;

absl::Status SystemError(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot read '", path, "'"));
}

absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator next(folder, error);
  if (error) return SystemError(folder, error);
  for (; next != fs::recursive_directory_iterator(); next.increment(error)) {
    if (error) return SystemError(folder, error);
    const bool hidden = next->path().filename().string().front() == '.';
    const bool is_folder = next->is_directory(error);
    if (hidden && is_folder) next.disable_recursion_pending();
    if (!hidden && !is_folder) files.push_back(next->path().string());
  }
  if (error) return SystemError(folder, error);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListDataFiles(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::ErrnoToStatus(error ? error.value() : ENOENT, absl::StrCat("cannot read the data '", path, "'"));
  }
  if (fs::is_regular_file(status)) return std::vector<std::string>{path};
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat("the data '", path, "' is neither a file nor a folder"));
  }
  ZS_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesBelow(path));
  if (files.empty()) return absl::InvalidArgumentError(absl::StrCat("the data folder '", path, "' holds no file"));
  return files;
}

void Utf8Check::Malformed(int64_t offset, int64_t bytes) {
  if (malformed_ == 0) first_malformed_ = offset;
  malformed_ += bytes;
}

void Utf8Check::Feed(std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) {
    const bool continuation = (byte & 0xc0) == 0x80;
    if (expected_ > 0 && continuation) {
      --expected_;
      ++length_;
    } else {
      if (expected_ > 0) Malformed(offset_ - length_, length_);
      length_ = 1;
      expected_ = byte < 0x80                   ? 0
                  : byte >= 0xc2 && byte < 0xe0 ? 1
                  : byte >= 0xe0 && byte < 0xf0 ? 2
                  : byte >= 0xf0 && byte < 0xf5 ? 3
                                                : -1;
      if (expected_ < 0) {
        Malformed(offset_, 1);
        expected_ = 0;
      }
    }
    ++offset_;
  }
}

absl::Status CheckText(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  if (file.size() == 0) return absl::InvalidArgumentError(absl::StrCat("the data file '", path, "' is empty"));
  Utf8Check utf8;
  std::vector<uint8_t> window(static_cast<size_t>(std::min(kWindowBytes, file.size())));
  const int64_t checked = std::min(file.size(), kCheckedBytes);
  for (int64_t offset = 0; offset < checked; offset += kWindowBytes) {
    const auto bytes = static_cast<size_t>(std::min(kWindowBytes, checked - offset));
    ZS_RETURN_IF_ERROR(file.Read(offset, window.data(), static_cast<int64_t>(bytes)));
    if (const void* zero = std::memchr(window.data(), 0, bytes)) {
      const int64_t at = offset + (static_cast<const uint8_t*>(zero) - window.data());
      return absl::InvalidArgumentError(absl::StrCat(path, ", offset ", at,
                                                     ": a zero byte: the file is binary, not UTF-8 text "
                                                     "(token files end in .bin)"));
    }
    utf8.Feed(std::span(window).first(bytes));
  }
  if (utf8.malformed() * kToleratedOneIn <= checked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ", offset ", utf8.first_malformed(),
                                                 ": not UTF-8 text: ", utf8.malformed(), " of ", checked,
                                                 " bytes are part of no character; convert it with iconv first"));
}

}  // namespace zeroshard::trainer
