#include "zeroshard/device/stream.h"

#include "zeroshard/device/span.h"

namespace zeroshard::device {

void Stream::Stamp(int64_t& time) { Store(time, NowNs()); }

}  // namespace zeroshard::device
