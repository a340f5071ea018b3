#include "zeroshard/device/cpu/cpu_elementwise.h"

#include <cstring>

#include "glog/logging.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/dtype_visitor.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {

void CpuElementwise::Fill(Stream& stream, Out y, double value) {
  VisitDType(y.array.dtype(), [&]<class T>(TypeTag<T>) {
    const auto fill = [](std::span<T> to, T v) {
      for (T& element : to) element = v;
    };
    HostLaunch(stream, "fill", fill, Write<T>(y), Narrow<T>(value));
  });
}

void CpuElementwise::Copy(Stream& stream, In x, Out y) {
  CHECK(x.array.dtype() == y.array.dtype() && x.array.elements() == y.array.elements()) << "copy between unlike arrays";
  const auto copy = [](std::span<const std::byte> from, std::span<std::byte> to) {
    if (!to.empty()) std::memmove(to.data(), from.data(), to.size());
  };
  HostLaunch(stream, "copy", copy, Read<std::byte>(x), Write<std::byte>(y));
}

void CpuElementwise::Convert(Stream& stream, In x, Out y) {
  CHECK_EQ(x.array.elements(), y.array.elements()) << "convert between arrays of unlike size";
  VisitFloat(x.array.dtype(), [&]<class From>(TypeTag<From>) {
    VisitFloat(y.array.dtype(), [&]<class To>(TypeTag<To>) {
      const auto convert = [](std::span<const From> from, std::span<To> to) {
        for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<To>(Widen(from[i]));
      };
      HostLaunch(stream, "convert", convert, Read<From>(x), Write<To>(y));
    });
  });
}

void CpuElementwise::Accumulate(Stream& stream, In x, InOut y) {
  CHECK_EQ(x.array.elements(), y.array.elements()) << "accumulate of arrays of unlike size";
  VisitFloat(x.array.dtype(), [&]<class From>(TypeTag<From>) {
    VisitFloat(y.array.dtype(), [&]<class To>(TypeTag<To>) {
      using Wide = typename WideOf<To>::type;
      const auto accumulate = [](std::span<const From> from, std::span<To> to) {
        for (size_t i = 0; i < to.size(); ++i) {
          to[i] = Narrow<To>(Widen(to[i]) + static_cast<Wide>(Widen(from[i])));
        }
      };
      HostLaunch(stream, "accumulate", accumulate, Read<From>(x), Update<To>(y));
    });
  });
}

void CpuElementwise::Scale(Stream& stream, InOut y, double factor) {
  VisitFloat(y.array.dtype(), [&]<class T>(TypeTag<T>) {
    using Wide = typename WideOf<T>::type;
    const auto scale = [](std::span<T> to, Wide f) {
      for (T& element : to) element = Narrow<T>(Widen(element) * f);
    };
    HostLaunch(stream, "scale", scale, Update<T>(y), static_cast<Wide>(factor));
  });
}

}  // namespace zeroshard::device
