// Every kernel that was linked in, so that all are loaded before the first collective: loading one while a NCCL kernel spins can
// deadlock.
//
// Example:
//   for (const LinkedKernel* k = LinkedKernels(); k != nullptr; k = k->next) cudaFuncGetAttributes(&attributes, k->function);
#pragma once

namespace zeroshard::device::cuda {

struct LinkedKernel {
  const char* name;  // as the compiler writes it
  const void* function;
  const LinkedKernel* next;
};

// The head of the list; complete when main begins, or when the shared object has been opened.
inline const LinkedKernel*& LinkedKernels() {
  static const LinkedKernel* head = nullptr;
  return head;
}

// Puts itself in the list when it is initialised.
class KernelEntry {
 public:
  KernelEntry(const char* name, const void* function) : kernel_{name, function, LinkedKernels()} {
    LinkedKernels() = &kernel_;
  }
  KernelEntry(const KernelEntry&) = delete;
  KernelEntry& operator=(const KernelEntry&) = delete;

  const LinkedKernel& kernel() const { return kernel_; }

 private:
  const LinkedKernel kernel_;
};

}  // namespace zeroshard::device::cuda
