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

TEST(VersionedValue, IsWholeWhoeverWrites) {
  VersionedValue<Value> value;
  std::atomic<int> writing{2};
  const auto write = [&](uint64_t first) {
    for (uint64_t i = 0; i < 50'000; ++i) {
      value.Store(Filled(first + 2 * i));
      if (i % 64 == 0) std::this_thread::yield();
    }
    --writing;
  };
  std::thread even([&] { write(0); });
  std::thread odd([&] { write(1); });
  while (writing.load() > 0) {
    const Value seen = value.Load();
    EXPECT_EQ(seen, Filled(seen[0]));
  }
  even.join();
  odd.join();
}

}  // namespace
}  // namespace zeroshard::comm
