// UcxWorker: one rank's place among its peers in UCX: a worker, an endpoint to each peer, messages by tag, memory to map.
//
// Thread-safe: one lock is held for each call, and never while somebody sleeps. Allocates nothing of ours after Connect.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::shared_ptr<UcxWorker> worker, UcxWorker::Create(world_size, UcxWays::kAll));
//   ZS_RETURN_IF_ERROR(worker->Connect(1, address_of_rank_1));
//   UcxMessage message;
//   worker->Send(1, tag, data, bytes, message);
//   while (!worker->Progress(message, 16)) worker->Sleep(wake, std::chrono::milliseconds(100));
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ucp/api/ucp.h"
#include "zeroshard/backends/ucx/ucx_context.h"
#include "zeroshard/backends/ucx/ucx_listeners.h"
#include "zeroshard/backends/ucx/ucx_networks.h"

namespace zeroshard::backends {

// A send or receive under way. Stays where it is until it is done.
struct UcxMessage {
  bool done = false;
  ucs_status_t status = UCS_OK;
  size_t bytes = 0;         // of a receive: what came
  void* request = nullptr;  // UCX's, until done
};

class UcxWorker {
 public:
  // Errors: FromUcx; kAlreadyExists the port of `networks` is taken.
  static absl::StatusOr<std::shared_ptr<UcxWorker>> Create(int world_size, UcxWays ways, const UcxNetworks& networks = {});
  // Every rkey and mapped memory was given back.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // What peers connect to.
  absl::StatusOr<std::string> Address();
  // `address` is a peer's, and came as it was sent (sealed_value.h): UCX does not check it.
  absl::Status Connect(int peer, const std::string& address);

  // Begin. What fails at once is done, with its status. A receive takes a message with that tag, of whatever length.
  void Send(int peer, ucp_tag_t tag, const void* data, size_t bytes, UcxMessage& message);
  void Receive(ucp_tag_t tag, void* data, size_t bytes, UcxMessage& message);
  // Moves messages on, a few `rounds` at most; gives whether `message` is done.
  bool Progress(const UcxMessage& message, int rounds);
  // Holds the caller until something may have happened: a message, a byte in the descriptor `wake`, or the time is up.
  void Sleep(int wake, std::chrono::milliseconds most);
  // Why the way to `peer` is broken; UCS_OK where it is not.
  ucs_status_t failure(int peer) const { return ends_[static_cast<size_t>(peer)]->failure.load(std::memory_order_acquire); }

  // Moves on all that is under way, until nothing has moved for `still`; at most for `most`.
  void Settle(std::chrono::milliseconds still, std::chrono::milliseconds most);
  // Until all ways to all peers are connected, and what was sent has been taken.
  absl::Status Flush(std::chrono::steady_clock::time_point deadline);
  // Lets nobody connect any more. Once every peer has flushed.
  void StopListening() { listeners_.Stop(); }
  // Ends a receive that has not met its message.
  void Cancel(const UcxMessage& message);
  // Ends the endpoints; nothing is sent, received or touched any more, done or not. Bounded.
  void Close();

  // Messages that may not have ended: UCX 1.13 ends some only with the worker, which writes to them. They live as long as it.
  void KeepAlive(std::shared_ptr<void> messages) { kept_ = std::move(messages); }

  // Memory that peers may map: [bytes], of zeros.
  absl::StatusOr<ucp_mem_h> Map(size_t bytes, void** data);
  void Unmap(ucp_mem_h memory);
  // What a peer needs to find it.
  absl::StatusOr<std::string> PackKey(ucp_mem_h memory);
  // The memory of `peer` that `key` describes, in this process. Gives null where it cannot be mapped, and no key then.
  void* MapPeer(int peer, const std::string& key, uint64_t address, ucp_rkey_h* rkey);
  void UnmapPeer(ucp_rkey_h rkey);

 private:
  struct End {
    ucp_ep_h endpoint = nullptr;
    std::atomic<ucs_status_t> failure{UCS_OK};
  };
  explicit UcxWorker(std::unique_ptr<UcxContext> context, int world_size);
  absl::Status Open(const UcxNetworks& networks);
  // With the lock: until `request` has ended; frees it. False where that took longer than `end`.
  bool Finish(ucs_status_ptr_t request, std::chrono::steady_clock::time_point end);
  static void Begun(ucs_status_ptr_t request, UcxMessage& message);
  static void OnSent(void* request, ucs_status_t status, void* message);
  static void OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* message);
  static void OnFailed(void* end, ucp_ep_h endpoint, ucs_status_t status);

  std::shared_ptr<void> kept_;  // until the worker is destroyed
  const std::unique_ptr<UcxContext> context_;
  std::mutex mutex_;  // over all that UCX does
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;  // readable when an armed worker has something to do; UCX's
  UcxListeners listeners_;
  std::vector<std::unique_ptr<End>> ends_;
  bool closed_ = false;
  bool moved_ = false;  // since Sleep last noted when anything did
  std::chrono::steady_clock::time_point last_moved_;
};

}  // namespace zeroshard::backends
