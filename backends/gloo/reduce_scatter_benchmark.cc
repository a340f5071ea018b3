// Our reduce-scatter over Gloo's buffers beside Gloo's own (halving-doubling), two processes, in turns; one JSON object.
//
//   bazel run -c opt //backends/gloo:reduce_scatter_benchmark -- 67108864 9
//
// Arguments: bytes of the whole buffer (default 64 MiB), rounds (default 9).

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gloo/allreduce_halving_doubling.h"
#include "gloo/barrier.h"
#include "gloo/reduce_scatter.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/transport/tcp/device.h"
#include "zeroshard/backends/gloo/gloo_backend.h"
#include "zeroshard/comm/store_file.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace {

using zeroshard::comm::Communicator;
using zeroshard::comm::ReduceOp;
using zeroshard::device::Array;
using zeroshard::device::DType;

constexpr int kRanks = 2;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void Fail(const std::string& why) {
  fprintf(stderr, "%s\n", why.c_str());
  _exit(1);
}

template <class T>
T OrFail(absl::StatusOr<T> value) {
  if (!value.ok()) Fail(value.status().ToString());
  return *std::move(value);
}

// Gloo as its own users use it.
class Theirs {
 public:
  Theirs(int rank, const std::string& folder, int64_t elements)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, kRanks)), data_(static_cast<size_t>(elements)) {
    gloo::transport::tcp::attr attributes("127.0.0.1");
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
    const auto part = static_cast<int>(elements / kRanks);
    algorithm_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
        context_, std::vector<float*>{data_.data()}, static_cast<int>(elements), std::vector<int>(kRanks, part));
  }
  float* Fill(float value) {
    std::fill(data_.begin(), data_.end(), value);
    return data_.data();
  }
  void Run() { algorithm_->run(); }
  void Barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> data_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> algorithm_;
};

class Ours {
 public:
  Ours(int rank, const std::string& folder, int64_t elements) : device_(zeroshard::device::MakeCpuDevice()), rank_(rank) {
    store_ = OrFail(zeroshard::comm::FileStore::Open(folder, {.rank = rank, .world_size = kRanks}));
    communicator_ = OrFail(zeroshard::backends::MakeGlooCommunicator(
        {.device = device_.get(), .store = store_.get(), .rank = rank, .world_size = kRanks, .interface = ""}));
    buffer_ = OrFail(device_->Allocate(4 * elements, zeroshard::device::Use::kCommunication, "benchmark"));
    all_ = buffer_.array(DType::kFloat32);
    part_ = all_.Slice(rank * elements / kRanks, elements / kRanks);
  }
  float* Fill(float value) {
    auto* data = static_cast<float*>(device_->HostAddress(all_));
    std::fill_n(data, all_.elements(), value);
    return data + rank_ * part_.elements();
  }
  void Run() {
    const absl::Status status = communicator_->ReduceScatter(all_, part_, ReduceOp::kSum, {.wait_at_once = true}).Wait();
    if (!status.ok()) Fail(status.ToString());
  }

 private:
  std::unique_ptr<zeroshard::device::Device> device_;
  int rank_;
  std::unique_ptr<zeroshard::comm::Store> store_;
  std::unique_ptr<Communicator> communicator_;
  zeroshard::device::Buffer buffer_;
  Array all_, part_;
};

double ProcessorMs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return 1e3 * static_cast<double>(used.tv_sec) + 1e-6 * static_cast<double>(used.tv_nsec);
}

// Of each round: what the clock says, and what all threads of this process used.
struct Times {
  std::vector<double> wall_ms;
  std::vector<double> processor_ms;
};

void Time(Times& times, const std::function<void()>& run) {
  const double processor_ms = ProcessorMs();
  const auto start = std::chrono::steady_clock::now();
  run();
  times.wall_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  times.processor_ms.push_back(ProcessorMs() - processor_ms);
}

void RunRank(int rank, const std::string& folder, int64_t elements, int rounds) {
  std::filesystem::create_directory(folder + "/theirs");
  Theirs theirs(rank, folder + "/theirs", elements);
  Ours ours(rank, folder + "/ours", elements);
  // Gloo's halving-doubling leaves rank r's part in bit-reversed place: with 2 ranks, where ours does.
  const float* their_part = theirs.Fill(1) + rank * elements / kRanks;
  const float* our_part = ours.Fill(1);
  theirs.Run();
  ours.Run();
  const bool verified = std::all_of(our_part, our_part + elements / kRanks, [](float x) { return x == 2; }) &&
                        std::all_of(their_part, their_part + elements / kRanks, [](float x) { return x == 2; });
  theirs.Fill(0);
  ours.Fill(0);
  Times gloo, zeroshard;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    theirs.Barrier();
    Time(gloo, [&] { theirs.Run(); });
    theirs.Barrier();
    Time(zeroshard, [&] { ours.Run(); });
    ratios.push_back(zeroshard.wall_ms.back() / gloo.wall_ms.back());
  }
  if (rank != 0) return;
  printf(
      "{\"op\": \"reduce_scatter\", \"ranks\": %d, \"bytes\": %lld, \"rounds\": %d, \"gloo_ms_median\": %.3f, "
      "\"ours_ms_median\": %.3f, \"ratio_median\": %.3f, \"gloo_ms_min\": %.3f, \"ours_ms_min\": %.3f, "
      "\"gloo_processor_ms_median\": %.3f, \"ours_processor_ms_median\": %.3f, \"verified\": %s}\n",
      kRanks, static_cast<long long>(elements * 4), rounds, Median(gloo.wall_ms), Median(zeroshard.wall_ms), Median(ratios),
      *std::min_element(gloo.wall_ms.begin(), gloo.wall_ms.end()),
      *std::min_element(zeroshard.wall_ms.begin(), zeroshard.wall_ms.end()), Median(gloo.processor_ms),
      Median(zeroshard.processor_ms), verified ? "true" : "false");
}

}  // namespace

int main(int argc, char** argv) {
  int64_t bytes = int64_t{64} << 20;
  int rounds = 9;
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &bytes)) || (argc > 2 && !absl::SimpleAtoi(argv[2], &rounds)) || bytes < 64 ||
      rounds < 1) {
    Fail("usage: reduce_scatter_benchmark [BYTES [ROUNDS]]");
  }
  const int64_t elements = bytes / 8 * 2;
  std::string folder = (std::filesystem::temp_directory_path() / "gloo_benchmark.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make " + folder);
  const pid_t child = fork();
  if (child == 0) {
    RunRank(1, folder, elements, rounds);
    return 0;
  }
  RunRank(0, folder, elements, rounds);
  int state = 0;
  waitpid(child, &state, 0);
  std::filesystem::remove_all(folder);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}
