#include "zeroshard/trainer/data/token_file.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"

namespace zeroshard::trainer {
namespace {

struct Format {
  int32_t magic;
  int32_t version;
  int bytes_per_token;
};
constexpr Format kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

absl::Status Invalid(const std::string& path, int64_t offset, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ", offset ", offset, ": ", problem));
}

// The token count of a header lies in 32 bits; files longer than that are trusted by their size.
absl::StatusOr<TokenFile> WithHeader(const std::string& path, int64_t size, const Format& format,
                                     const std::array<int32_t, 3>& header) {
  if (header[1] != format.version) {
    return Invalid(path, 4,
                   absl::StrCat("llm.c token file of version ", header[1], "; version ", format.version, " is read"));
  }
  const int64_t held = (size - kTokenHeaderBytes) / format.bytes_per_token;
  const int64_t declared = static_cast<uint32_t>(header[2]);
  if (size < kTokenHeaderBytes || held < declared) {
    return Invalid(path, 8,
                   absl::StrCat("the header says ", declared, " tokens, but the file's ", size, " bytes hold only ",
                                size < kTokenHeaderBytes ? 0 : held, ": is it cut short?"));
  }
  const bool wrapped = held > int64_t{0xffffffff} && static_cast<uint32_t>(held) == static_cast<uint32_t>(header[2]);
  return TokenFile{path, kTokenHeaderBytes, format.bytes_per_token, wrapped ? held : declared};
}

}  // namespace

absl::StatusOr<TokenFile> DescribeTokenFile(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::array<int32_t, 3> header = {};
  if (file.size() >= static_cast<int64_t>(sizeof header)) {
    ZS_RETURN_IF_ERROR(file.Read(0, header.data(), sizeof header));
    for (const Format& format : kFormats) {
      if (header[0] == format.magic) return WithHeader(path, file.size(), format, header);
    }
  }
  if (file.size() % 2 != 0) {
    return Invalid(path, file.size() - 1,
                   "an odd number of bytes is no uint16 token file (nanoGPT's .bin), and llm.c's magic is missing");
  }
  return TokenFile{path, 0, 2, file.size() / 2};
}

absl::StatusOr<TokenFile> DescribeByteFile(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  return TokenFile{path, 0, 1, file.size()};
}

std::string TokenHeader(int64_t tokens, int bytes_per_token) {
  const Format& format = bytes_per_token == 2 ? kFormats[0] : kFormats[1];
  const std::array<int32_t, 3> header = {format.magic, format.version, static_cast<int32_t>(static_cast<uint32_t>(tokens))};
  std::string bytes(kTokenHeaderBytes, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  return bytes;
}

}  // namespace zeroshard::trainer
