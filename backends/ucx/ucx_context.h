// UcxContext: UCX's library as this project wants it set up, whatever the environment forgot to say.
//
// Shared memory is kept although peers may fail (UCX leaves it for TCP by default), a peer that died is noticed within a second
// or two, and CMA, slower than mapped memory, is left out. Shared memory is System V's, which no folder bounds (containers'
// /dev/shm is small), and which the system takes back with the last process that holds it. UCX_TLS, UCX_NET_DEVICES and
// UCX_RNDV_THRESH of the environment are the user's, and stay. What UCX logs goes to glog: its own log would go to the standard output.
//
// Note: Over TCP alone. There UCX's rendezvous for long messages asks the receiver before it sends, and the question and its answer
// stand in the same connection behind the pieces that are on their way: each direction stands still while the other one answers.
// So long messages are sent at once. That no sender runs further ahead than a schedule has pieces under way, UcxWorker::Send sees to.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<UcxContext> context, UcxContext::Create(world_size, UcxWays::kAll));
//   ucp_worker_create(context->get(), ...);
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "ucp/api/ucp.h"
#include "zeroshard/backends/ucx/ucx_networks.h"

namespace zeroshard::backends {

// What messages may go by.
enum class UcxWays { kSharedMemory, kAll };

class UcxContext {
 public:
  // kAll: what UCX_TLS names, where it is set. Over shared memory alone UCX opens no port.
  // Errors: FromUcx.
  static absl::StatusOr<std::unique_ptr<UcxContext>> Create(int world_size, UcxWays ways, const UcxNetworks& networks = {});
  ~UcxContext() { ucp_cleanup(context_); }
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucp_context_h get() const { return context_; }

 private:
  explicit UcxContext(ucp_context_h context) : context_(context) {}

  ucp_context_h context_;
};

}  // namespace zeroshard::backends
