// LateEngine: the queues of one device/late, who knows of what, and when what runs.
//
// Note: Who knows of what. An operation is ordered after another if its stream's clock says so. A stream learns by its own
// order, by Wait (the event's clock), and from the thread that queues (what that thread has synchronised with). A thread
// learns by Synchronize alone; what it knows goes on to other threads where the host itself orders them: to a thread that is
// new to the device (its creation), from one that ended (its join), and, where it hands work over, to whoever takes it:
// Event::Expect marks that, since every issued collective calls it.
//
// Thread-safe. Operations run under the lock, on whichever thread needs them. One that has to wait for others outside (a
// collective's peers) is polled: it says "not yet" and is asked again, and meanwhile other threads go on.
//
// Example:
//   const int stream = engine->AddStream(StreamKind::kCompute);
//   engine->Enqueue(stream, operation);
//   engine->Synchronize(stream);
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/device/late/clock.h"
#include "zeroshard/device/late/late_memory.h"
#include "zeroshard/device/late/late_options.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

// What an event was last recorded behind.
struct LateRecord {
  bool expected = false;
  int stream = -1;
  uint64_t sequence = 0;
  Clock clock;
};

class LateEngine : public std::enable_shared_from_this<LateEngine> {
 public:
  explicit LateEngine(const LateOptions& options) : options_(options), random_(options.seed) {}
  ~LateEngine();

  absl::StatusOr<uint64_t> Allocate(int64_t bytes, std::string_view what);
  // Ends the process if a queued operation still uses the memory.
  void Free(uint64_t address, int64_t bytes);

  int AddStream(StreamKind kind);
  void Enqueue(int stream, const Operation& operation);
  // An operation that is done once `poll` gives true; until then it is asked now and then. `name` outlives it.
  using Poll = std::function<bool(const AddressMap&)>;
  void EnqueuePolled(int stream, const char* name, std::span<const Access> accesses, Poll poll);
  void Synchronize(int stream);
  // How many operations and waits of the stream have not run.
  size_t Queued(int stream);
  // Runs all that is queued; the caller learns nothing by it.
  void Drain(int stream);

  void Record(int stream, LateRecord& record);
  // Holds the caller while the record is expected.
  void Wait(int stream, const LateRecord& record);
  void Expect(LateRecord& record);
  bool Done(const LateRecord& record);
  void Synchronize(const LateRecord& record);
  // What this thread knows, every other thread knows from now on.
  void HandOver();
  // Lets one operation that may run do so, as a device would by itself. False: there is none.
  bool Progress();

  // See LateDevice.
  std::vector<WaitPoint> waits();
  void LeaveOutWait(const WaitPoint& point);
  // Keeps what thread `id`, which ends, knows.
  void EndThread(std::thread::id id);

 private:
  // A queued operation, or a wait for operation `sequence` of stream `on`.
  struct Item {
    uint64_t sequence = 0;
    int on = -1;
    uint64_t on_sequence = 0;
    const char* name = "wait";
    void* closure = nullptr;
    void (*run)(const void*, const AddressMap&) = nullptr;
    void (*destroy)(void*) = nullptr;
    Poll poll;
    std::vector<Access> accesses;
  };
  struct Queue {
    StreamKind kind = StreamKind::kCompute;
    std::deque<Item> queued;
    uint64_t issued = 0, done = 0;
    Clock clock;
    // Waits that ordered anything; of each, whether a later one told all of it again before anything made use of it.
    std::vector<bool> told_again;
    std::vector<std::pair<size_t, Clock>> unused;  // of those: what nothing has made use of yet
  };

  bool IsDone(const LateRecord& record) const;
  void AwaitRecord(std::unique_lock<std::mutex>& lock, const LateRecord& record);
  Clock& ThreadClock();
  // The next item of `queue`, its accesses logged.
  Item& Add(Queue& queue, int stream, const char* name, std::span<const Access> accesses);
  bool IsReady(const Queue& queue) const;
  // False: not yet.
  bool RunFront(Queue& queue);
  bool TryDemand(Queue& queue, uint64_t sequence);
  void Demand(std::unique_lock<std::mutex>& lock, Queue& queue, uint64_t sequence);
  bool RunAny();
  void RunAsOptionsSay(Queue& queue);
  // Counts a wait of `queue` for what `told` knows; its index.
  int64_t CountWait(Queue& queue, const Clock& told);

  const LateOptions options_;
  std::mutex mutex_;
  std::condition_variable recorded_;
  std::mt19937 random_;
  LateMemory memory_;
  std::optional<WaitPoint> left_out_;
  std::deque<Queue> queues_;
  std::map<std::thread::id, Clock> threads_;
  Clock everything_;   // All that any thread knows.
  Clock handed_over_;  // What ended threads, and those that handed work over, know.
};

}  // namespace zeroshard::device
