#include "zeroshard/trainer/tensorboard/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/device/vendor_scope.h"
#include "zeroshard/trainer/tensorboard/crc32c.h"
#include "zeroshard/trainer/tensorboard/event.pb.h"

namespace zeroshard::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecords are little-endian");

constexpr size_t kFrameBytes = 8 + 4 + 4;  // length, its checksum, the data's checksum
constexpr size_t kMostTagBytes = 32;
constexpr size_t kMostBytes = 64 + EventFile::kMostScalars * (kMostTagBytes + 16);

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

template <class T>
void Put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

absl::Status Failed(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the TensorBoard events '", path, "'"));
}

}  // namespace

struct EventFile::Message {
  tensorboard::Event event;
  std::array<std::byte, kMostBytes + kFrameBytes> record;
};

absl::StatusOr<EventFile> EventFile::Create(const std::string& folder) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return Failed(folder);
  std::array<char, 65> host = {};
  gethostname(host.data(), host.size() - 1);
  const std::string path = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d", folder, static_cast<int64_t>(Now()),
                                           host.data(), static_cast<int64_t>(getpid()));
  const int descriptor = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) return Failed(path);
  EventFile file(path, descriptor);
  if (!file.status_.ok()) return file.status_;
  return file;
}

EventFile::EventFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor), message_(std::make_unique<Message>()) {
  message_->event.set_wall_time(Now());
  message_->event.set_file_version("brain.Event:2");
  Append();
  // Elements and the room of their tags are kept when they are cleared.
  tensorboard::Summary* summary = message_->event.mutable_summary();
  for (size_t i = 0; i < kMostScalars; ++i) summary->add_value()->set_tag(std::string(kMostTagBytes, ' '));
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

EventFile::EventFile(EventFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      message_(std::move(other.message_)),
      status_(std::move(other.status_)) {}

bool EventFile::Write(int64_t step, std::span<const Scalar> scalars) {
  if (!status_.ok()) return false;
  {
    const device::VendorScope protobuf;
    message_->event.set_wall_time(Now());
    message_->event.set_step(step);
    tensorboard::Summary* summary = message_->event.mutable_summary();
    summary->clear_value();
    for (const Scalar& scalar : scalars.first(std::min(scalars.size(), kMostScalars))) {
      tensorboard::Summary::Value* value = summary->add_value();
      value->mutable_tag()->assign(scalar.tag.substr(0, kMostTagBytes));
      value->set_simple_value(static_cast<float>(scalar.value));
    }
  }
  Append();
  return !status_.ok();
}

// Frames the event: its length, the length's checksum, its bytes, their checksum.
void EventFile::Append() {
  std::byte* const record = message_->record.data();
  std::byte* const data = record + 12;
  size_t length = 0;
  {
    const device::VendorScope protobuf;
    length = message_->event.ByteSizeLong();
    message_->event.SerializeToArray(data, static_cast<int>(kMostBytes));
  }
  Put(record, static_cast<uint64_t>(length));
  Put(record + 8, MaskedCrc32c({record, 8}));
  Put(data + length, MaskedCrc32c({data, length}));
  std::span<const std::byte> rest(record, length + kFrameBytes);
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = Failed(path_);
      return;
    }
    rest = rest.subspan(static_cast<size_t>(written));
  }
}

absl::Status EventFile::Close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return status_;
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  if ((!synced || close(descriptor) != 0) && status_.ok()) status_ = Failed(path_);
  return status_;
}

}  // namespace zeroshard::trainer
