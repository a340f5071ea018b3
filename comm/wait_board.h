// WaitBoard: for whom a rank waits, in each of the groups that were split off one another. So one that is asked in a group why it is
// late can say that another group holds it up.
//
// Example:
//   auto board = std::make_shared<WaitBoard>();                // the rank's
//   WaitPlace shard(board), replicas(board);                   // a group's each
//   replicas.Set(3);
//   shard.Elsewhere();                                         // 3
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

namespace zeroshard::comm {

// Thread-safe.
class WaitBoard {
 public:
  WaitBoard();

 private:
  friend class WaitPlace;
  static constexpr int kFree = -2;
  std::array<std::atomic<int>, 16> waits_for_;  // groups beyond that say nothing
};

class WaitPlace {
 public:
  // `board` may be null.
  explicit WaitPlace(std::shared_ptr<WaitBoard> board);
  ~WaitPlace();
  WaitPlace(const WaitPlace&) = delete;
  WaitPlace& operator=(const WaitPlace&) = delete;

  // `number`: what messages call the rank that is waited for; -1: none. Thread-safe, allocates nothing.
  void Set(int number);
  // Whom this rank waits for in another group; -1: nobody. Thread-safe, allocates nothing.
  int Elsewhere() const;

 private:
  const std::shared_ptr<WaitBoard> board_;
  int place_ = -1;
};

// "; it waits for rank 3 in another group", or nothing where `elsewhere` is no rank.
std::string DescribeElsewhere(int elsewhere);

}  // namespace zeroshard::comm
