// Socket: owns a file descriptor.
//
// Example:
//   Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
//   if (!socket) return absl::ErrnoToStatus(errno, "socket");
#pragma once

#include <unistd.h>

#include <utility>

namespace zeroshard::comm {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

}  // namespace zeroshard::comm
