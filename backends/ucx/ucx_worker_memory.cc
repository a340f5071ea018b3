// Memory that peers map.
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/ucx/segment_note.h"
#include "zeroshard/backends/ucx/ucx_errors.h"
#include "zeroshard/backends/ucx/ucx_worker.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

#ifdef __SANITIZE_THREAD__
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

// Of mmap the sanitizer of threads hears that addresses begin a new life; of shmat, which UCX calls, it does not, and holds who used
// the memory that was there before against who uses it now. So there the segment takes the place of memory of mmap.
extern "C" void* shmat(int id, const void* address, int flags) {
  shmid_ds segment = {};
  if (address == nullptr && shmctl(id, IPC_STAT, &segment) == 0) {
    address = mmap(nullptr, segment.shm_segsz, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return MAP_FAILED;
    flags |= SHM_REMAP;
  }
  return reinterpret_cast<void*>(syscall(SYS_shmat, id, address, flags));
}
#endif

namespace zeroshard::backends {

absl::StatusOr<ucp_mem_h> UcxWorker::Map(size_t bytes, void** data) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  ucp_mem_map_params_t parameters = {};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
  parameters.length = bytes;
  parameters.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h memory = nullptr;
  const SegmentNote note;
  ZS_RETURN_IF_ERROR(
      FromUcx(ucp_mem_map(context_->get(), &parameters, &memory), absl::StrCat("allocating ", bytes, " bytes")));
  ucp_mem_attr_t attributes = {};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  const absl::Status asked = FromUcx(ucp_mem_query(memory, &attributes), "asking for memory's address");
  if (!asked.ok()) {
    ucp_mem_unmap(context_->get(), memory);
    return asked;
  }
  *data = attributes.address;
  return memory;
}

void UcxWorker::Unmap(ucp_mem_h memory) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  ucp_mem_unmap(context_->get(), memory);
}

absl::StatusOr<std::string> UcxWorker::PackKey(ucp_mem_h memory) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  void* key = nullptr;
  size_t bytes = 0;
  ZS_RETURN_IF_ERROR(FromUcx(ucp_rkey_pack(context_->get(), memory, &key, &bytes), "packing a key of memory"));
  std::string copy(static_cast<const char*>(key), bytes);
  ucp_rkey_buffer_release(key);
  return copy;
}

void* UcxWorker::MapPeer(int peer, const std::string& key, uint64_t address, ucp_rkey_h* rkey) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  *rkey = nullptr;
  const ucp_ep_h endpoint = ends_[static_cast<size_t>(peer)]->endpoint;
  if (endpoint == nullptr || ucp_ep_rkey_unpack(endpoint, key.data(), rkey) != UCS_OK) return nullptr;
  void* data = nullptr;
  if (ucp_rkey_ptr(*rkey, address, &data) == UCS_OK) return data;
  ucp_rkey_destroy(std::exchange(*rkey, nullptr));
  return nullptr;
}

void UcxWorker::UnmapPeer(ucp_rkey_h rkey) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  ucp_rkey_destroy(rkey);
}

}  // namespace zeroshard::backends
