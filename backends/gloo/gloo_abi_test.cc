// gloo/common/memory.h is ours (memory.h), the classes that are built from it are the library's: both must mean the same.

#include <malloc.h>

#include <memory>

#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/pair.h"
#include "gloo/transport/tcp/unbound_buffer.h"
#include "gtest/gtest.h"

namespace zeroshard::backends {
namespace {

namespace tcp = ::gloo::transport::tcp;

// The allocator rounds up, by less than this.
constexpr size_t kRounding = 24;

template <class T, class Base>
void ExpectSizeAsAllocated(const Base& object) {
  ASSERT_NE(dynamic_cast<const T*>(&object), nullptr);
  const size_t allocated = malloc_usable_size(const_cast<void*>(dynamic_cast<const void*>(&object)));
  EXPECT_GE(allocated, sizeof(T));
  EXPECT_LT(allocated, sizeof(T) + kRounding);
}

TEST(GlooAbi, TheLibraryAllocatesTheSizesThatTheHeadersSay) {
  tcp::attr attributes("127.0.0.1");
  auto device = std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attributes));
  // Pair and UnboundBuffer are made inside the library.
  auto context = std::make_shared<tcp::Context>(device, 0, 2);
  ExpectSizeAsAllocated<tcp::Pair>(*context->createPair(1));
  ExpectSizeAsAllocated<tcp::UnboundBuffer>(*context->createUnboundBuffer(nullptr, 1));
}

}  // namespace
}  // namespace zeroshard::backends
