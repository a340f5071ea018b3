#include "zeroshard/comm/rendezvous/values.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::comm {
namespace {

TEST(Values, AreBounded) {
  Values values;
  EXPECT_TRUE(values.Set("k", "v").ok());
  EXPECT_EQ(values.Set("", "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(values.Set(std::string(kMaxStoreKeyBytes + 1, 'k'), "v").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(values.Set("k", std::string(kMaxStoreValueBytes + 1, 'v')).code(), absl::StatusCode::kInvalidArgument);
  const std::string large(kMaxStoreValueBytes, 'v');
  absl::Status full;
  int64_t taken = 0;
  while ((full = values.Set(absl::StrCat("k", taken), large)).ok()) ++taken;
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(taken * kMaxStoreValueBytes, Values::kMostBytes);
  EXPECT_TRUE(values.Set("k0", "small again").ok());
  EXPECT_TRUE(values.Set("k1", large).ok());
}

}  // namespace
}  // namespace zeroshard::comm
