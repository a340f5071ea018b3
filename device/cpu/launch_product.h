// Queues a planned product: C is written, or, where the plan adds to it, read and written.
//
// Example:
//   LaunchProduct(stream, "product", spec_, run, a, b, c, bias);   // run(a, b, c, bias), as spans of bytes
#pragma once

#include <cstddef>
#include <utility>

#include "zeroshard/device/array.h"
#include "zeroshard/device/gemm.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

template <class Kernel>
void LaunchProduct(Stream& stream, const char* name, const GemmSpec& spec, Kernel run, In a, In b, InOut c, In bias) {
  using std::byte;
  if (spec.accumulate) {
    HostLaunch(stream, name, std::move(run), Read<byte>(a), Read<byte>(b), Update<byte>(c), Read<byte>(bias));
  } else {
    HostLaunch(stream, name, std::move(run), Read<byte>(a), Read<byte>(b), Write<byte>(c.array), Read<byte>(bias));
  }
}

}  // namespace zeroshard::device
