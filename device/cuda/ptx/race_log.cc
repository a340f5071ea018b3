#include "zeroshard/device/cuda/ptx/race_log.h"

namespace zeroshard::device::cuda::ptx {

bool RaceLog::Races(const Epochs& epochs, const Touch& earlier, uint32_t thread) {
  if (earlier.epoch < epochs.launch) return false;
  return earlier.epoch < epochs.block || (earlier.epoch == epochs.now && earlier.thread != thread);
}

bool RaceLog::Read(const Epochs& epochs, size_t byte, uint32_t thread) {
  Cell& cell = At(byte);
  if (Races(epochs, cell.written, thread)) return true;
  if (cell.read.epoch >= epochs.launch && cell.read.epoch < epochs.block) cell.read_by_block_before = cell.read.epoch;
  const bool is_shared = cell.read.epoch == epochs.now && cell.read.thread != thread;
  cell.read = {epochs.now, is_shared ? kSeveral : thread};
  return false;
}

bool RaceLog::Write(const Epochs& epochs, size_t byte, uint32_t thread, bool is_atomic) {
  Cell& cell = At(byte);
  if (Races(epochs, cell.written, thread) && !(is_atomic && cell.is_atomic)) return true;
  if (Races(epochs, cell.read, thread) || cell.read_by_block_before >= epochs.launch) return true;
  cell.written = {epochs.now, thread};
  cell.is_atomic = is_atomic;
  return false;
}

}  // namespace zeroshard::device::cuda::ptx
