#include "zeroshard/trainer/product_choices.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/text_hash.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/output_file.h"
#include "zeroshard/trainer/host_collectives.h"

namespace zeroshard::trainer {
namespace {

using comm::Communicator;

constexpr char kChecksum[] = "checksum\t";
constexpr int64_t kLargestFile = 16 << 20;
constexpr char kLabel[] = "product choices";

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

// The lines of `more` whose products `text` lacks. The first line of both is the library.
std::string Lacking(const std::string& text, const std::string& more) {
  const auto product = [](const std::string& line) { return line.substr(0, line.find('\t')); };
  std::set<std::string> known;
  for (const std::string& line : Lines(text)) known.insert(product(line));
  std::string lacking;
  const std::vector<std::string> lines = Lines(more);
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!known.contains(product(lines[i]))) absl::StrAppend(&lacking, lines[i], "\n");
  }
  return lacking;
}

// Completes rank 0's `text`: rank by rank, as long as one has planned what is not in it.
absl::Status AddOtherRanks(Communicator& communicator, const std::string& own, std::string& text) {
  for (;;) {
    std::string lacking = Lacking(text, own);
    int64_t next = lacking.empty() ? communicator.world_size() : communicator.rank();
    const auto least = [&](const device::Array& array, const comm::CallOptions& options) {
      return communicator.AllReduce(array, array, comm::ReduceOp::kMin, options);
    };
    ZS_RETURN_IF_ERROR(OnHostBytes(communicator, &next, 1, device::DType::kInt64, kLabel, least));
    if (next == communicator.world_size()) return absl::OkStatus();
    ZS_RETURN_IF_ERROR(BroadcastText(communicator, static_cast<int>(next), lacking, kLabel));
    absl::StrAppend(&text, lacking);
  }
}

std::string ChecksumLine(std::string_view text) { return absl::StrFormat("%s%016x\n", kChecksum, device::TextHash(text)); }

}  // namespace

absl::Status ShareProductChoices(Communicator& communicator, const std::string& saved) {
  device::Device& device = communicator.device();
  const std::string own = device.ProductChoices();
  if (own.empty()) return device.TakeProductChoices(saved);
  std::string given = saved;
  ZS_RETURN_IF_ERROR(BroadcastText(communicator, /*root=*/0, given, kLabel));
  std::string text = given;
  if (given.empty()) {
    text = own;
    ZS_RETURN_IF_ERROR(BroadcastText(communicator, /*root=*/0, text, kLabel));
    ZS_RETURN_IF_ERROR(AddOtherRanks(communicator, own, text));
  }
  const absl::Status taken = device.TakeProductChoices(text);
  if (taken.ok()) return taken;
  if (given.empty()) {
    return absl::Status(taken.code(), absl::StrCat("rank ", communicator.rank(), ", from rank 0: ", taken.message()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--product_choices: ", taken.message(), "; without the flag algorithms are chosen anew"));
}

absl::StatusOr<std::string> ReadProductChoices(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::string text(static_cast<size_t>(std::min(file.size(), kLargestFile)), '\0');
  ZS_RETURN_IF_ERROR(file.Read(0, text.data(), static_cast<int64_t>(text.size())));
  const size_t end = text.rfind(kChecksum);
  if (end == text.npos || end == 0 || text.substr(end) != ChecksumLine(text.substr(0, end))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' is not, or no longer, what --save_product_choices wrote: its last line is no checksum of it"));
  }
  return text.substr(0, end);
}

absl::Status WriteProductChoices(const std::string& path, const std::string& choices) {
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  ZS_RETURN_IF_ERROR(out.Append(choices));
  ZS_RETURN_IF_ERROR(out.Append(ChecksumLine(choices)));
  return out.Close();
}

absl::Status KeepProductChoices(const device::Device& device, const std::string& path,
                                const std::function<void(std::string_view)>& note) {
  if (path.empty()) return absl::OkStatus();
  ZS_RETURN_IF_ERROR(WriteProductChoices(path, device.ProductChoices()));
  if (note)
    note(absl::StrCat("the products' algorithms are in ", path, ": --product_choices=", path, " runs by them again"));
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer
