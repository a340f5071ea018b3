#include "zeroshard/device/cpu/onednn.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device {

dnnl_engine_t OneDnnEngine() {
  static dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    const dnnl_status_t status = dnnl_engine_create(&made, dnnl_cpu, 0);
    if (status != dnnl_success) LOG(ERROR) << "oneDNN gives no CPU engine: status " << status;
    return made;
  }();
  return engine;
}

dnnl_data_type_t OneDnnType(DType dtype) {
  if (dtype == DType::kBfloat16) return dnnl_bf16;
  return dtype == DType::kFloat16 ? dnnl_f16 : dnnl_f32;
}

absl::Status OneDnnStatus(dnnl_status_t status, std::string_view call, std::string_view what) {
  if (status == dnnl_success) return absl::OkStatus();
  const std::string text =
      absl::StrCat(std::string(what), ": ", std::string(call), ": oneDNN status ", static_cast<int>(status));
  if (status == dnnl_unimplemented) return absl::UnimplementedError(absl::StrCat(text, " (unimplemented on this machine)"));
  if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError(absl::StrCat(text, " (out of memory)"));
  return absl::InternalError(text);
}

absl::Status MakeOneDnnAttributes(bool accumulate, std::string_view what, OneDnnAttributes& attributes) {
  ZS_ONEDNN(dnnl_primitive_attr_create(attributes.out()), what);
  ZS_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user), what);
  if (!accumulate) return absl::OkStatus();
  OneDnnPostOps post_ops;
  ZS_ONEDNN(dnnl_post_ops_create(post_ops.out()), what);
  ZS_ONEDNN(dnnl_post_ops_append_sum(post_ops.get(), 1.0f), what);
  ZS_ONEDNN(dnnl_primitive_attr_set_post_ops(attributes.get(), post_ops.get()), what);
  return absl::OkStatus();
}

absl::Status OneDnnPrimitive::Create(const_dnnl_primitive_desc_t description, Device& device, std::string what) {
  what_ = std::move(what);
  ZS_ONEDNN(dnnl_primitive_create(primitive_.out(), description), what_);
  ZS_ONEDNN(dnnl_stream_create(stream_.out(), OneDnnEngine(), dnnl_stream_default_flags), what_);
  const dnnl_memory_desc_t* scratch = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  const int64_t bytes = scratch == nullptr ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
  if (bytes == 0) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(scratch_, device.AllocateHost(bytes, Use::kActivations, "a matrix product's scratch"));
  ZS_ASSIGN_OR_RETURN(const int place, AddArgument(DNNL_ARG_SCRATCHPAD, *scratch));
  SetData(place, device.HostPointer(scratch_));
  return absl::OkStatus();
}

absl::StatusOr<int> OneDnnPrimitive::AddArgument(int argument, const dnnl_memory_desc_t& description) {
  OneDnnMemory& memory = memories_[count_];
  ZS_ONEDNN(dnnl_memory_create(memory.out(), &description, OneDnnEngine(), DNNL_MEMORY_NONE), what_);
  arguments_[static_cast<size_t>(count_)] = {argument, memory.get()};
  return count_++;
}

void OneDnnPrimitive::SetData(int place, const void* data) {
  dnnl_memory_set_data_handle(memories_[place].get(), const_cast<void*>(data));
}

absl::Status OneDnnPrimitive::Execute() {
  VendorScope scope;
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream_.get(), count_, arguments_.data());
  if (status == dnnl_success) return absl::OkStatus();
  return OneDnnStatus(status, "dnnl_primitive_execute", what_);
}

}  // namespace zeroshard::device
