#include "zeroshard/backends/ucx/ucx_worker.h"

#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/segment_note.h"
#include "zeroshard/backends/ucx/ucx_errors.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::backends {
namespace {

using Clock = std::chrono::steady_clock;

// How long endpoints may take to close, all together, and messages to end with them.
constexpr std::chrono::milliseconds kMostClosing{1000};
// How long a peer may take to make room, where it runs, before whoever waits for it sleeps; and in what turns it looks then.
constexpr std::chrono::milliseconds kHope{10};
constexpr std::chrono::milliseconds kTurn{1};

// A send of more ends when its receiver has begun to receive it, so that no more of them lie about there than are under way here.
constexpr size_t kMostUnasked = 16 << 10;

}  // namespace

UcxWorker::UcxWorker(std::unique_ptr<UcxContext> context, int world_size) : context_(std::move(context)) {
  for (int i = 0; i < world_size; ++i) ends_.push_back(std::make_unique<End>());
}

absl::StatusOr<std::shared_ptr<UcxWorker>> UcxWorker::Create(int world_size, UcxWays ways, const UcxNetworks& networks) {
  RemoveDeadSegments();
  const device::VendorScope scope;
  const SegmentNote note;
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<UcxContext> context, UcxContext::Create(world_size, ways, networks));
  std::shared_ptr<UcxWorker> worker(new UcxWorker(std::move(context), world_size));
  ZS_RETURN_IF_ERROR(worker->Open(networks));
  return worker;
}

absl::Status UcxWorker::Open(const UcxNetworks& networks) {
  ucp_worker_params_t parameters = {};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  {
    const UcxListeners::Search search;
    const absl::Status made = FromUcx(ucp_worker_create(context_->get(), &parameters, &worker_), "making a worker");
    if (absl::IsResourceExhausted(made)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(made.message(),
                       ": this host has no room for its shared memory; `ipcs -lm` shows the limits "
                       "(kernel.shmmni, shmall, shmmax), df /dev/shm that of UCX_TLS=posix"));
    }
    ZS_RETURN_IF_ERROR(made);
    listeners_ = UcxListeners(search, networks.sources);
  }
  return FromUcx(ucp_worker_get_efd(worker_, &events_), "getting the worker's events");
}

UcxWorker::~UcxWorker() {
  if (worker_ == nullptr) return;
  Close();
  const device::VendorScope scope;
  ucp_worker_destroy(worker_);
}

absl::StatusOr<std::string> UcxWorker::Address() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  ZS_RETURN_IF_ERROR(FromUcx(ucp_worker_get_address(worker_, &address, &bytes), "getting the worker's address"));
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

absl::Status UcxWorker::Connect(int peer, const std::string& address) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  End& end = *ends_[static_cast<size_t>(peer)];
  ucp_ep_params_t parameters = {};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {.cb = &OnFailed, .arg = &end};
  return FromUcx(ucp_ep_create(worker_, &parameters, &end.endpoint), absl::StrCat("connecting to rank ", peer));
}

void UcxWorker::OnFailed(void* end, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<End*>(end)->failure.store(status, std::memory_order_release);
}

void UcxWorker::OnSent(void* request, ucs_status_t status, void* message) {
  UcxMessage& sent = *static_cast<UcxMessage*>(message);
  sent.status = status;
  sent.request = nullptr;
  sent.done = true;
  ucp_request_free(request);
}

void UcxWorker::OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* message) {
  static_cast<UcxMessage*>(message)->bytes = info->length;
  OnSent(request, status, message);
}

// What UCX answered: done at once, refused at once, or under way; by then the callback may have been called.
void UcxWorker::Begun(ucs_status_ptr_t request, UcxMessage& message) {
  if (message.done) return;
  message.done = !UCS_PTR_IS_PTR(request);
  message.status = message.done ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
  message.request = message.done ? nullptr : request;
}

void UcxWorker::Send(int peer, ucp_tag_t tag, const void* data, size_t bytes, UcxMessage& message) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  message = {};
  if (closed_) return Begun(UCS_STATUS_PTR(UCS_ERR_CANCELED), message);
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = &OnSent;
  parameters.user_data = &message;
  const auto send = bytes > kMostUnasked ? &ucp_tag_send_sync_nbx : &ucp_tag_send_nbx;
  Begun(send(ends_[static_cast<size_t>(peer)]->endpoint, data, bytes, tag, &parameters), message);
}

void UcxWorker::Receive(ucp_tag_t tag, void* data, size_t bytes, UcxMessage& message) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  message = {};
  if (closed_) return Begun(UCS_STATUS_PTR(UCS_ERR_CANCELED), message);
  ucp_request_param_t parameters = {};
  // Only the callback is told the length.
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv = &OnReceived;
  parameters.user_data = &message;
  Begun(ucp_tag_recv_nbx(worker_, data, bytes, tag, ~ucp_tag_t{0}, &parameters), message);
}

bool UcxWorker::Progress(const UcxMessage& message, int rounds) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int i = 0; i < rounds && !message.done && !closed_; ++i) moved_ = ucp_worker_progress(worker_) > 0 || moved_;
  return message.done;
}

void UcxWorker::Sleep(int wake, std::chrono::milliseconds most) {
  pollfd entries[] = {{.fd = events_, .events = POLLIN, .revents = 0}, {.fd = wake, .events = POLLIN, .revents = 0}};
  {
    const device::VendorScope scope;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_ && ucp_worker_arm(worker_) != UCS_OK) {
      // There is something to do; but what is queued for a peer that has no room, which UCX takes for such too, may wait for long.
      const Clock::time_point now = Clock::now();
      if (std::exchange(moved_, false)) last_moved_ = now;
      if (now - last_moved_ < kHope) return;
      most = std::min(most, kTurn);
      entries[0].fd = -1;  // It says that there is something to do.
    }
  }
  poll(entries, 2, static_cast<int>(most.count()));
}

bool UcxWorker::Finish(ucs_status_ptr_t request, Clock::time_point end) {
  if (!UCS_PTR_IS_PTR(request)) return true;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) {
    if (ucp_worker_progress(worker_) == 0 && Clock::now() >= end) break;
  }
  const bool ended = ucp_request_check_status(request) != UCS_INPROGRESS;
  ucp_request_free(request);
  return ended;
}

void UcxWorker::Settle(std::chrono::milliseconds still, std::chrono::milliseconds most) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point end = Clock::now() + most;
  Clock::time_point moved = Clock::now();
  while (!closed_) {
    const unsigned events = ucp_worker_progress(worker_);
    const Clock::time_point now = Clock::now();
    if (events > 0) moved = now;
    if (now >= end || now - moved >= still) return;
  }
}

absl::Status UcxWorker::Flush(Clock::time_point deadline) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  ucp_request_param_t parameters = {};
  const ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_, &parameters);
  if (!UCS_PTR_IS_PTR(request)) return FromUcx(UCS_PTR_STATUS(request), "flushing");
  ucs_status_t status = UCS_INPROGRESS;
  while (status == UCS_INPROGRESS && Clock::now() < deadline) {
    if (ucp_worker_progress(worker_) == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    status = ucp_request_check_status(request);
  }
  ucp_request_free(request);
  return FromUcx(status == UCS_INPROGRESS ? UCS_ERR_TIMED_OUT : status, "connecting all ways to all peers");
}

void UcxWorker::Cancel(const UcxMessage& message) {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (message.request != nullptr && !closed_) ucp_request_cancel(worker_, message.request);
}

void UcxWorker::Close() {
  const device::VendorScope scope;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(closed_, true)) return;
  const Clock::time_point end = Clock::now() + kMostClosing;
  std::vector<ucs_status_ptr_t> closing;
  for (const std::unique_ptr<End>& each : ends_) {
    if (each->endpoint == nullptr) continue;
    ucp_request_param_t parameters = {};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing.push_back(ucp_ep_close_nbx(std::exchange(each->endpoint, nullptr), &parameters));
  }
  for (ucs_status_ptr_t request : closing) {
    LOG_IF(WARNING, !Finish(request, end)) << "UCX: an endpoint did not close in time";
  }
}

}  // namespace zeroshard::backends
