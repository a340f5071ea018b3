#include "zeroshard/comm/wait_board.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::comm {

WaitBoard::WaitBoard() {
  for (std::atomic<int>& waits_for : waits_for_) waits_for.store(kFree, std::memory_order_relaxed);
}

WaitPlace::WaitPlace(std::shared_ptr<WaitBoard> board) : board_(std::move(board)) {
  if (board_ == nullptr) return;
  for (size_t i = 0; i < board_->waits_for_.size() && place_ < 0; ++i) {
    int expected = WaitBoard::kFree;
    if (board_->waits_for_[i].compare_exchange_strong(expected, -1, std::memory_order_relaxed)) place_ = static_cast<int>(i);
  }
}

WaitPlace::~WaitPlace() {
  if (place_ >= 0) Set(WaitBoard::kFree);
}

void WaitPlace::Set(int number) {
  if (place_ >= 0) board_->waits_for_[static_cast<size_t>(place_)].store(number, std::memory_order_relaxed);
}

int WaitPlace::Elsewhere() const {
  if (board_ == nullptr) return -1;
  for (size_t i = 0; i < board_->waits_for_.size(); ++i) {
    const int number = board_->waits_for_[i].load(std::memory_order_relaxed);
    if (static_cast<int>(i) != place_ && number >= 0) return number;
  }
  return -1;
}

std::string DescribeElsewhere(int elsewhere) {
  return elsewhere < 0 ? "" : absl::StrCat("; it waits for rank ", elsewhere, " in another group");
}

}  // namespace zeroshard::comm
