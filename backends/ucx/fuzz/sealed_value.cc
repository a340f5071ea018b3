// What peers give in the store for this rank's UCX: only what was sealed, and came as it was, is believed.
#include "zeroshard/backends/ucx/sealed_value.h"

#include <string>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using zeroshard::backends::OpenValue;
  using zeroshard::backends::SealValue;
  const std::string value(reinterpret_cast<const char*>(data), size);
  for (const char* kind : {"address", "key"}) {
    const auto bytes = OpenValue(kind, 1, value);
    if (bytes.ok()) CHECK_EQ(SealValue(kind, *bytes), value);
    if (!bytes.ok()) CHECK(absl::IsFailedPrecondition(bytes.status()));
  }
  return 0;
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using zeroshard::backends::SealValue;
  return {SealValue("address", std::string(200, 'a')), SealValue("key", std::string(60, '\0')), SealValue("key", ""),
          "zeroshard ucx 1.9 address\n"};
}
