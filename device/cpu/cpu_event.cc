#include "zeroshard/device/cpu/cpu_event.h"

namespace zeroshard::device {
namespace {

// About 4 us of pauses: longer than a hand-over between two running threads, shorter than a sleep and a wake.
constexpr int kSpins = 100;

void Pause() { __builtin_ia32_pause(); }

}  // namespace

void CpuEvent::Expect() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (!IsExpected(state) && !state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
  }
}

void CpuEvent::MarkRecorded(int64_t time_ns) {
  recorded_ns_.store(time_ns, std::memory_order_relaxed);
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (!state_.compare_exchange_weak(state, state + (IsExpected(state) ? 1 : 2), std::memory_order_acq_rel)) {
  }
  if (IsExpected(state)) state_.notify_all();
}

void CpuEvent::Synchronize() const {
  const uint32_t state = state_.load(std::memory_order_acquire);
  if (!IsExpected(state)) return;
  for (int i = 0; i < kSpins; ++i) {
    if (state_.load(std::memory_order_acquire) != state) return;
    Pause();
  }
  state_.wait(state, std::memory_order_acquire);
}

}  // namespace zeroshard::device
