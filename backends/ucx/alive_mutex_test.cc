#include "zeroshard/backends/ucx/alive_mutex.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace zeroshard::backends {
namespace {

class AliveMutex : public ::testing::Test {
 protected:
  AliveMutex() {
    void* const shared = mmap(nullptr, sizeof(pthread_mutex_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(shared, MAP_FAILED);
    mutex_ = static_cast<pthread_mutex_t*>(shared);
    MakeAliveMutex(*mutex_);
  }
  ~AliveMutex() override { munmap(mutex_, sizeof(pthread_mutex_t)); }

  // As each of the survivors does, which are other threads than the one that holds it, and than each other.
  bool AskedByAnother() {
    bool held = false;
    std::thread([&] { held = HeldByTheLiving(*mutex_); }).join();
    return held;
  }

  pthread_mutex_t* mutex_ = nullptr;
};

TEST_F(AliveMutex, IsHeldWhileItsHolderLives) {
  EXPECT_FALSE(AskedByAnother());
  ASSERT_EQ(pthread_mutex_lock(mutex_), 0);
  EXPECT_TRUE(AskedByAnother());
  EXPECT_TRUE(AskedByAnother());
  ASSERT_EQ(pthread_mutex_unlock(mutex_), 0);
  EXPECT_FALSE(AskedByAnother());
}

TEST_F(AliveMutex, EverySurvivorFindsTheThreadDeadThatHeldIt) {
  std::thread([this] { ASSERT_EQ(pthread_mutex_lock(mutex_), 0); }).join();
  for (int survivor = 0; survivor < 3; ++survivor) EXPECT_FALSE(AskedByAnother()) << survivor;
}

TEST_F(AliveMutex, EverySurvivorFindsTheProcessDeadThatHeldIt) {
  int locked[2];
  ASSERT_EQ(pipe(locked), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool got = pthread_mutex_lock(mutex_) == 0;
    if (got && write(locked[1], "l", 1) == 1) pause();
    _exit(1);
  }
  ASSERT_GT(child, 0);
  char word = 0;
  ASSERT_EQ(read(locked[0], &word, 1), 1);
  EXPECT_TRUE(AskedByAnother());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);  // a zombie from now on
  for (int survivor = 0; survivor < 3; ++survivor) EXPECT_FALSE(AskedByAnother()) << survivor;
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(locked[0]);
  close(locked[1]);
}

}  // namespace
}  // namespace zeroshard::backends
