// HostLaunch: a kernel written in plain C++, queued on a stream of a device whose memory is the host's (cpu, late).
//
// The kernel is a callable that gets a std::span for each declared array and every other argument by value; it must not
// allocate, and on device/late it runs later and perhaps on another thread: it captures nothing by reference.
//
// Example:
//   HostLaunch(stream, "axpy",
//              [](std::span<const float> x, std::span<float> y, float a) {
//                for (size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
//              },
//              Read<float>(x), Update<float>(y), a);
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

// A declared argument of a host kernel, T const where it is only read.
template <class T, AccessMode kMode>
struct HostArgument {
  Array array;
};

template <class T>
HostArgument<const T, AccessMode::kRead> Read(In in) {
  return {in.array};
}
template <class T>
HostArgument<T, AccessMode::kWrite> Write(Out out) {
  return {out.array};
}
template <class T>
HostArgument<T, AccessMode::kReadWrite> Update(InOut io) {
  return {io.array};
}

namespace internal {

template <class T>
inline constexpr bool kIsDeclared = false;
template <class T, AccessMode kMode>
inline constexpr bool kIsDeclared<HostArgument<T, kMode>> = true;

template <class T, AccessMode kMode>
std::span<T> Resolve(const AddressMap& map, const HostArgument<T, kMode>& argument) {
  const Array& a = argument.array;
  if (a.empty()) return {};
  return {static_cast<T*>(map.Resolve(a.address(), a.bytes())), static_cast<size_t>(a.bytes()) / sizeof(T)};
}
template <class T>
const T& Resolve(const AddressMap&, const T& value) {
  static_assert(!std::is_pointer_v<T>, "device memory travels as Read, Write or Update");
  return value;
}

template <class T, AccessMode kMode>
void Declare(Access*& next, const HostArgument<T, kMode>& argument) {
  *next++ = Access{argument.array.address(), argument.array.bytes(), kMode};
}
template <class T>
void Declare(Access*&, const T&) {}

template <class Kernel, class... Args>
struct Closure {
  Kernel kernel;
  std::tuple<Args...> args;
};

}  // namespace internal

// Queues kernel(span or value for each of args...). Returns at once; on device/cpu after it ran, without allocating.
// Queue: a Stream, or what else has its Enqueue.
template <class Queue, class Kernel, class... Args>
void HostLaunch(Queue& queue, const char* name, Kernel kernel, Args... args) {
  using Closure = internal::Closure<Kernel, Args...>;
  constexpr size_t kDeclared = (size_t{0} + ... + (internal::kIsDeclared<Args> ? 1 : 0));
  std::array<Access, kDeclared == 0 ? 1 : kDeclared> accesses;
  [[maybe_unused]] Access* next = accesses.data();
  (internal::Declare(next, args), ...);
  Closure closure{std::move(kernel), std::tuple<Args...>(std::move(args)...)};
  Operation operation;
  operation.name = name;
  operation.accesses = std::span<const Access>(accesses.data(), kDeclared);
  operation.closure = &closure;
  operation.run = [](const void* self, const AddressMap& map) {
    const auto& c = *static_cast<const Closure*>(self);
    std::apply([&](const Args&... a) { c.kernel(internal::Resolve(map, a)...); }, c.args);
  };
  operation.clone = [](const void* self) -> void* { return new Closure(*static_cast<const Closure*>(self)); };
  operation.destroy = [](void* self) { delete static_cast<Closure*>(self); };
  queue.Enqueue(operation);
}

}  // namespace zeroshard::device
