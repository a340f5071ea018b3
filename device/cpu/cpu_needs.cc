#include "zeroshard/device/cpu/cpu_needs.h"

#include "zeroshard/device/device_needs.h"

namespace zeroshard::device {
namespace {

// What its products take is oneDNN's to say, when they are planned.
[[maybe_unused]] const bool kRegistered = RegisterNeeds("cpu", {.loss_blocks = &CpuLossBlocks});

}  // namespace
}  // namespace zeroshard::device
