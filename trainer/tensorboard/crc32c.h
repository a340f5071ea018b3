// CRC-32C (Castagnoli), and the masked form in which TFRecord files carry it.
//
// Example:
//   MaskedCrc32c(std::as_bytes(std::span(text)));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zeroshard::trainer {

uint32_t Crc32c(std::span<const std::byte> bytes);

// Rotated and offset, so that a checksum of data that holds checksums is no special case.
inline uint32_t MaskedCrc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace zeroshard::trainer
