#include "zeroshard/device/cuda/ptx/fat_binary.h"

#include <cstddef>
#include <cstdint>

#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1, kMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;

struct Wrapper {
  uint32_t magic, version;
  const std::byte* data;
};

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // behind it
};

struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;  // behind it
  uint32_t compressed_bytes;
};

}  // namespace

std::string_view PtxIn(const void* wrapper) {
  const auto& outer = *static_cast<const Wrapper*>(wrapper);
  if (outer.magic != kWrapperMagic) EndTest("a fat binary of a kind that is not known here");
  const auto& header = *reinterpret_cast<const Header*>(outer.data);
  if (header.magic != kMagic) EndTest("a fat binary that does not begin as one");
  const std::byte* at = outer.data + header.header_bytes;
  const std::byte* const end = at + header.bytes;
  while (at < end) {
    const auto& entry = *reinterpret_cast<const Entry*>(at);
    const auto* text = reinterpret_cast<const char*>(at + entry.header_bytes);
    if (entry.kind == kPtx) {
      if (entry.compressed_bytes != 0) EndTest("PTX in a fat binary is compressed: nvcc takes --compress-mode=none");
      return {text, entry.bytes};
    }
    at += entry.header_bytes + entry.bytes;
  }
  EndTest("a fat binary without PTX");
}

}  // namespace zeroshard::device::cuda::ptx
