// What other ranks may have written of themselves in the store.
#include "zeroshard/backends/nccl/rank_words.h"

#include <string>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

constexpr int kRank = 3;

void CheckTold(const absl::Status& status) {
  if (status.ok()) return;
  CHECK(absl::IsFailedPrecondition(status)) << status;
  CHECK(fuzz::Prints(status.message())) << status;
  CHECK_LT(status.message().size(), size_t{500}) << status;
}

void ReadRank(const std::string& bytes) {
  const auto words = ParseRank(kRank, bytes);
  CheckTold(words.status());
  if (!words.ok()) return;
  CHECK_EQ(FormatRank(*words), bytes);
  CHECK(fuzz::Prints(words->libraries) && fuzz::Prints(words->host));
}

void ReadUniqueId(const std::string& bytes) {
  const absl::Status told = CheckUniqueId(bytes, 128);
  CheckTold(told);
  CHECK_EQ(told.ok(), bytes.size() == 128);
}

void ReadPlace(const std::string& bytes) {
  const auto place = ParsePlace(kRank, bytes);
  CheckTold(place.status());
  if (!place.ok()) return;
  CHECK_EQ(FormatPlace(*place), bytes);
  CHECK(place->bytes >= 0 && place->piece >= -1 && place->offset >= 0);
}

void ReadYes(const std::string& bytes) {
  const auto yes = ParseYes(kRank, bytes);
  CheckTold(yes.status());
  if (yes.ok()) CHECK_EQ(FormatYes(*yes), bytes);
}

}  // namespace
}  // namespace zeroshard::backends

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&ReadRank, &ReadUniqueId, &ReadPlace, &ReadYes}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  return {'\0' + FormatRank({.libraries = "NCCL 2.28.9, cuBLASLt 13.0.2, no cuDNN", .host = "node/a5f0"}),
          '\1' + std::string(128, '\x42'),
          '\2' + FormatPlace({.bytes = 1000, .piece = 3, .offset = 4096}),
          '\2' + FormatPlace({.bytes = 0}),
          '\3' + FormatYes(true),
          '\3' + FormatYes(false)};
}
