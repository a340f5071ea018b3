// A run's numbers as TensorBoard reads them: FOLDER/events.out.tfevents.TIME.HOST.PID, framed as TFRecords, each one Event.
//
// A step goes out by one write(), so that whoever looks on sees it at once. Our code allocates nothing in Write; what Protobuf may
// allocate is the vendor's. What cannot be written (a full disk) does not end the run: the first failure is kept, and no more is
// written, so that no record is torn twice.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(EventFile events, EventFile::Create("board/"));
//   const Scalar scalars[] = {{"loss", 4.2}, {"lr", 1e-3}};
//   events.Write(/*step=*/7, scalars);
//   ZS_RETURN_IF_ERROR(events.Close());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

class EventFile {
 public:
  static constexpr size_t kMostScalars = 16;

  // Makes the folder where its parent is there. Errors: the system's, with the path.
  static absl::StatusOr<EventFile> Create(const std::string& folder);
  ~EventFile();
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;

  // At most kMostScalars. Gives true for the first step that could not be written: the moment to say so.
  bool Write(int64_t step, std::span<const Scalar> scalars);
  // OK, or why steps are missing. Flushes to the disk.
  absl::Status Close();
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  struct Message;
  EventFile(std::string path, int descriptor);
  void Append();

  std::string path_;
  int descriptor_;
  std::unique_ptr<Message> message_;
  absl::Status status_;
};

}  // namespace zeroshard::trainer
