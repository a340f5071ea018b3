// oneDNN's C API as plans of products use it: its engine, handles that somebody owns, statuses, and a primitive with its
// arguments and scratch, made once at start and run many times without allocating.
//
// Example:
//   ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&a, 2, dims, dnnl_bf16, strides), Describe(spec));
//   ZS_RETURN_IF_ERROR(primitive.Create(description.get(), device, Describe(spec)));
//   ZS_ASSIGN_OR_RETURN(const int src, primitive.AddArgument(DNNL_ARG_SRC, a));
//   primitive.SetData(src, pointer);
//   absl::Status status = primitive.Execute();
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneapi/dnnl/dnnl.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {

// The process's one engine; it is never destroyed, so that plans may outlive static destruction. Null where oneDNN gives none.
dnnl_engine_t OneDnnEngine();

// fp32, bf16 or fp16.
dnnl_data_type_t OneDnnType(DType dtype);

absl::Status OneDnnStatus(dnnl_status_t status, std::string_view call, std::string_view what);

#define ZS_ONEDNN(call, what) ZS_RETURN_IF_ERROR(::zeroshard::device::OneDnnStatus((call), #call, (what)))

// A handle that is destroyed with its owner.
template <class Handle, dnnl_status_t (*kDestroy)(Handle)>
class OneDnnOwned {
 public:
  OneDnnOwned() = default;
  ~OneDnnOwned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  OneDnnOwned(const OneDnnOwned&) = delete;
  OneDnnOwned& operator=(const OneDnnOwned&) = delete;
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using OneDnnMemory = OneDnnOwned<dnnl_memory_t, dnnl_memory_destroy>;
using OneDnnAttributes = OneDnnOwned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using OneDnnPostOps = OneDnnOwned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using OneDnnDescription = OneDnnOwned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

// Scratch by the caller, and the result added to what is there where `accumulate`.
absl::Status MakeOneDnnAttributes(bool accumulate, std::string_view what, OneDnnAttributes& attributes);

class OneDnnPrimitive {
 public:
  // `device` gives the scratch, filed under activations; `what` names the operation in errors.
  absl::Status Create(const_dnnl_primitive_desc_t description, Device& device, std::string what);
  // A place for an argument (DNNL_ARG_...) of that description; at most four.
  absl::StatusOr<int> AddArgument(int argument, const dnnl_memory_desc_t& description);
  void SetData(int place, const void* data);
  // Runs on the calling thread (and its OpenMP threads); the vendor's allocations are its own.
  absl::Status Execute();

 private:
  std::string what_;
  Buffer scratch_;
  OneDnnOwned<dnnl_stream_t, dnnl_stream_destroy> stream_;
  OneDnnOwned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  OneDnnMemory memories_[5];
  std::array<dnnl_exec_arg_t, 5> arguments_;
  int count_ = 0;
};

}  // namespace zeroshard::device
