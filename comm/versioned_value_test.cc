#include "zeroshard/comm/versioned_value.h"

#include <array>
#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using Value = std::array<uint64_t, 13>;

Value Filled(uint64_t with) {
  Value value;
  value.fill(with);
  return value;
}

TEST(VersionedValue, BeginsAsZerosAndGivesTheLatest) {
  VersionedValue<Value> value;
  EXPECT_EQ(value.Load(), Filled(0));
  value.Store(Filled(4));
  value.Store(Filled(5));
  EXPECT_EQ(value.Load(), Filled(5));
}

TEST(VersionedValue, IsWholeWhileItIsWritten) {
  VersionedValue<Value> value;
  std::atomic<bool> writing{true};
  std::thread writer([&] {
    for (uint64_t i = 0; i < 100'000; ++i) {
      value.Store(Filled(i));
      if (i % 64 == 0) std::this_thread::yield();
    }
    writing = false;
  });
  while (writing.load()) {
    const Value seen = value.Load();
    EXPECT_EQ(seen, Filled(seen[0]));
  }
  writer.join();
  EXPECT_EQ(value.Load(), Filled(99'999));
}

}  // namespace
}  // namespace zeroshard::comm
