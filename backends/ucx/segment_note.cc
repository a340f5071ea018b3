#include "zeroshard/backends/ucx/segment_note.h"

#include <fcntl.h>
#include <sys/shm.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/store_file_access.h"

namespace zeroshard::backends {
namespace {

namespace fs = std::filesystem;

// What UCX makes at once it makes within this time of the note; no system gives a process's number to another one so soon.
constexpr int64_t kMostSeconds = 10;

// Empty where there is none, or it is not this user's alone.
std::string Folder() {
  std::string folder = comm::UserFolder(comm::ProcessEnvironment, /*this_host_alone=*/true);
  if (folder.empty()) return "";
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  for (const char* const name : {"/zeroshard", "/segments"}) {
    folder += name;
    if (!comm::MakePrivateFolder(folder).ok()) return "";
  }
  return folder;
}

// The number of a namespace of this process: "4026531839".
std::string Namespace(const char* which) {
  char text[64] = {};
  const ssize_t length = readlink(absl::StrCat("/proc/self/ns/", which).c_str(), text, sizeof(text) - 1);
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(text, length > 0 ? static_cast<size_t>(length) : 0), absl::ByAnyChar("[]"));
  return parts.size() == 3 ? parts[1] : "";
}

// Processes of another host, boot or container have other segments, or other numbers.
std::string Here() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return absl::StrCat(boot, "_", Namespace("ipc"), "_", Namespace("pid"));
}

// When the process began, in ticks since the boot; nothing where it is no more: ended, or a zombie with no thread left.
std::optional<uint64_t> StartOf(int64_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::vector<std::string> words((std::istream_iterator<std::string>(fields)), std::istream_iterator<std::string>());
  constexpr size_t kState = 0, kThreads = 17, kStart = 19;
  uint64_t start = 0;
  if (words.size() <= kStart || !absl::SimpleAtoi(words[kStart], &start)) return std::nullopt;
  if (words[kState] == "Z" && words[kThreads].size() == 1 && words[kThreads][0] <= '1') return std::nullopt;
  return start;
}

struct Noted {
  int64_t process = 0;
  uint64_t start = 0;
  int64_t seconds = 0;
};

std::optional<Noted> Parse(const std::string& name, const std::string& here) {
  if (!name.starts_with(here + "_")) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(name.substr(here.size() + 1), '_');
  Noted noted;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &noted.process) || !absl::SimpleAtoi(parts[1], &noted.start) ||
      !absl::SimpleAtoi(parts[2], &noted.seconds) || noted.process <= 0) {
    return std::nullopt;
  }
  return noted;
}

bool IsDead(const Noted& noted) {
  const std::optional<uint64_t> start = StartOf(noted.process);
  if (start.has_value()) return *start != noted.start;
  // What cannot be looked at may live.
  return kill(static_cast<pid_t>(noted.process), 0) == 0 ? fs::exists(absl::StrCat("/proc/", noted.process))
                                                         : errno == ESRCH;
}

int RemoveSegmentsOf(const Noted& noted) {
  shm_info all = {};
  const int highest = shmctl(0, SHM_INFO, reinterpret_cast<shmid_ds*>(&all));
  int removed = 0;
  for (int index = 0; index <= highest; ++index) {
    shmid_ds segment = {};
    const int id = shmctl(index, SHM_STAT, &segment);
    const bool its = id >= 0 && segment.shm_cpid == noted.process && segment.shm_perm.__key == IPC_PRIVATE &&
                     segment.shm_perm.cuid == geteuid() && segment.shm_nattch == 0 && segment.shm_ctime >= noted.seconds &&
                     segment.shm_ctime <= noted.seconds + kMostSeconds;
    if (!its || shmctl(id, IPC_RMID, nullptr) != 0) continue;
    LOG(INFO) << "removed shared memory that process " << noted.process << " left when it was killed (" << segment.shm_segsz
              << " bytes)";
    ++removed;
  }
  return removed;
}

}  // namespace

SegmentNote::SegmentNote() {
  static std::atomic<uint64_t> notes{0};
  const std::string folder = Folder();
  if (folder.empty()) return;
  const std::string path = absl::StrCat(folder, "/", Here(), "_", getpid(), "_", StartOf(getpid()).value_or(0), "_",
                                        static_cast<int64_t>(std::time(nullptr)), "_", notes.fetch_add(1));
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  close(file);
  path_ = path;
}

SegmentNote::~SegmentNote() {
  if (!path_.empty()) unlink(path_.c_str());
}

int RemoveDeadSegments() {
  const std::string folder = Folder();
  if (folder.empty()) return 0;
  const std::string here = Here();
  int removed = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::optional<Noted> noted = Parse(entry.path().filename().string(), here);
    if (!noted.has_value() || !IsDead(*noted)) continue;
    removed += RemoveSegmentsOf(*noted);
    unlink(entry.path().c_str());
  }
  return removed;
}

}  // namespace zeroshard::backends
