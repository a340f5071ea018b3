#include "zeroshard/backends/nccl/nccl_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/our_thread.h"

namespace zeroshard::backends {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with what is still posted when the thread is to end
// With a call that was left behind: where its communicator was aborted it comes back, and what it uses is there until it has.
constexpr std::chrono::seconds kPatienceWithTheStuck{1};

struct Rare {
  std::function<absl::Status()> work;
  absl::Status status;
  bool done = false;
};

// An operation, or a rare call.
struct Posted {
  NcclThread::Issuer* issuer = nullptr;
  comm::Operation* operation = nullptr;
  std::shared_ptr<Rare> rare;
};

constexpr size_t kRareCalls = 16;  // at once

}  // namespace

struct NcclThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Posted> ring{kRareCalls};
  size_t first = 0, posted = 0;
  bool stop = false, ended = false, left_behind = false;
  std::thread thread;

  void Add(Posted next) {
    ring[(first + posted++) % ring.size()] = std::move(next);
    changed.notify_all();
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return posted > 0 || stop; });
      if (posted == 0) break;
      Posted next = std::move(ring[first]);
      first = (first + 1) % ring.size();
      --posted;
      lock.unlock();
      absl::Status status;
      if (next.rare != nullptr) {
        status = next.rare->work();
      } else {
        next.issuer->Issue(*next.operation);
      }
      lock.lock();
      if (next.rare == nullptr) continue;
      next.rare->status = status;
      next.rare->work = nullptr;
      next.rare->done = true;
      changed.notify_all();
    }
    ended = true;
    changed.notify_all();
  }
};

NcclThread::NcclThread(device::Device& device, std::function<void()> begin) : state_(std::make_shared<State>()) {
  state_->thread = std::thread([state = state_, &device, begin = std::move(begin)] {
    device::OurThread::Begin(&device);
    begin();
    state->Run();
  });
}

NcclThread::~NcclThread() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, state_->left_behind ? kPatienceWithTheStuck : kPatience, [this] { return state_->ended; });
  const bool ended = state_->ended;
  lock.unlock();
  ended ? state_->thread.join() : state_->thread.detach();
}

void NcclThread::MakeRoom(size_t operations) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<Posted> ring(state_->ring.size() + operations);
  for (size_t i = 0; i < state_->posted; ++i) ring[i] = std::move(state_->ring[(state_->first + i) % state_->ring.size()]);
  state_->ring.swap(ring);
  state_->first = 0;
}

void NcclThread::Post(Issuer& issuer, comm::Operation& operation) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->Add({.issuer = &issuer, .operation = &operation, .rare = nullptr});
}

absl::Status NcclThread::Call(const char* what, std::function<absl::Status()> work, absl::Duration timeout) {
  auto rare = std::make_shared<Rare>();
  rare->work = std::move(work);
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->Add({.issuer = nullptr, .operation = nullptr, .rare = rare});
  if (state_->changed.wait_for(lock, absl::ToChronoNanoseconds(timeout), [&] { return rare->done; })) return rare->status;
  state_->left_behind = true;
  return absl::DeadlineExceededError(absl::StrCat(what, " has not come back within ", absl::FormatDuration(timeout)));
}

}  // namespace zeroshard::backends
