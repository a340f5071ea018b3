// What code each device has loaded. CUDA loads a kernel when it is first used, and may wait for all that the device does: while an operation
// of NCCL spins there until another device has come as far, that can be for ever. So on the doubles the first use of a kernel, or of an
// algorithm of cuBLASLt's, while such an operation is under way ends the test.
//
// Thread-safe.
//
// Example:
//   Loading::Get().Use(stream->device, {.number = fingerprint, .variant = 1}, "cublasLtMatmul", "an algorithm");
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda::doubles {

// A kernel by its address, or an algorithm of a product.
struct Code {
  uint64_t number = 0;
  uint64_t variant = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 that it is compared with is the compiler's.
  friend auto operator<=>(const Code&, const Code&) = default;
};

using Poll = std::function<bool(const AddressMap&)>;

class Loading {
 public:
  static Loading& Get();

  // The device starts anew, with nothing loaded.
  void Begin(int device);
  // Ends the test, with call and what, where this loads the code while something is under way.
  void Use(int device, const Code& code, const char* call, const std::string& what);
  // The same poll of an operation that is queued now; the operation is under way until it gives true.
  Poll UnderWay(int device, Poll poll);

 private:
  struct State {
    std::set<Code> loaded;
    std::shared_ptr<int> under_way = std::make_shared<int>(0);  // under mutex_
  };

  std::mutex mutex_;
  std::map<int, State> devices_;
};

}  // namespace zeroshard::device::cuda::doubles
