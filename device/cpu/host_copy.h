// Queued copies between a device whose memory is the host's and other host memory: CopyToHost and CopyFromHost of such devices.
//
// Example:
//   QueueCopyToHost(stream, array, pointer);
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "zeroshard/device/array.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

// to[0, from's bytes) = from. `to` lives until the stream has come past.
inline void QueueCopyToHost(Stream& stream, In from, void* to) {
  const auto copy = [to](std::span<const std::byte> x) {
    if (!x.empty()) std::memcpy(to, x.data(), x.size());
  };
  HostLaunch(stream, "copy to host", copy, Read<std::byte>(from));
}

// to = from[0, to's bytes). `from` lives until the stream has come past.
inline void QueueCopyFromHost(Stream& stream, const void* from, Out to) {
  const auto copy = [from](std::span<std::byte> y) {
    if (!y.empty()) std::memcpy(y.data(), from, y.size());
  };
  HostLaunch(stream, "copy from host", copy, Write<std::byte>(to));
}

}  // namespace zeroshard::device
