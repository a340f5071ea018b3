// What a device takes of its memory beside what is asked of it, and how it cuts what a model asks for: known before there is a device, by
// its name, so that memory is found not to suffice before a rank is started.
//
// Example:
//   // In a library that is linked whole (alwayslink), and that stands without the device:
//   const bool registered = RegisterNeeds("cuda", {.own_bytes = 6144, .loss_blocks = &LossBlocksOf});
//   // In a tool:
//   NeedsOf("cuda").product_bytes;
#pragma once

#include <cstdint>
#include <string_view>

#include "zeroshard/device/dtype.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device {

struct DeviceNeeds {
  int64_t own_bytes = 0;      // taken when it is made, filed under Use::kCommunication
  int64_t product_bytes = 0;  // shared by all products, taken with the first that is planned, filed under Use::kActivations
  // TransformerKernels::loss_blocks; null: nobody says.
  LossBlocks (*loss_blocks)(DType dtype) = nullptr;
};

// Gives true, for a static initialiser. A second of one name replaces the first.
bool RegisterNeeds(std::string_view name, const DeviceNeeds& needs);

// Nothing, where nobody says.
DeviceNeeds NeedsOf(std::string_view name);

}  // namespace zeroshard::device
