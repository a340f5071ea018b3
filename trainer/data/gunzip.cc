#include "zeroshard/trainer/data/gunzip.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/output_file.h"

namespace zeroshard::trainer {
namespace {

constexpr unsigned kWindowBytes = 1 << 18;

}  // namespace

absl::StatusOr<bool> IsGzip(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::array<uint8_t, 2> magic = {};
  if (file.size() < 2) return false;
  ZS_RETURN_IF_ERROR(file.Read(0, magic.data(), magic.size()));
  return magic[0] == 0x1f && magic[1] == 0x8b;
}

absl::Status Gunzip(const std::string& packed_path, const std::string& to_path) {
  gzFile packed = gzopen(packed_path.c_str(), "rb");
  if (packed == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", packed_path, "'"));
  auto close = absl::MakeCleanup([packed] { gzclose(packed); });
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(to_path));
  std::vector<char> window(kWindowBytes);
  for (;;) {
    const int got = gzread(packed, window.data(), kWindowBytes);
    int error = Z_OK;
    const char* words = gzerror(packed, &error);
    if (got < 0 || error != Z_OK) return absl::DataLossError(absl::StrCat("cannot unpack '", packed_path, "': ", words));
    if (got == 0) return out.Close();
    ZS_RETURN_IF_ERROR(out.Append(std::string_view(window.data(), static_cast<size_t>(got))));
  }
}

}  // namespace zeroshard::trainer
