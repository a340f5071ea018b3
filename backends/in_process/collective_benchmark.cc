// Times reduce-scatter, all-gather and all-reduce of ranks that are threads, beside a copy of the same bytes by as many threads.
//
//   collective_benchmark [RANKS]                # default 2; one JSON object a line
//
// bytes: of the whole buffer. bytes_per_s: those over the median time. ratio_to_copy: the median time of memcpy over the median
// time of the collective, taken in turn in one run.

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using device::Array;
using device::DType;

double Seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// One rank's view: its whole buffer, its part, and a place to copy to.
struct Memory {
  explicit Memory(Communicator& c, int64_t bytes)
      : whole(*c.Allocate(bytes, device::Use::kData, "whole")),
        part(*c.Allocate(bytes / c.world_size(), device::Use::kData, "part")),
        copy(*c.Allocate(bytes, device::Use::kData, "copy")) {}
  device::Buffer whole, part, copy;
};

comm::Work Issue(Communicator& rank, const std::string& op, const Memory& memory) {
  const comm::CallOptions at_once{.wait_at_once = true};
  const Array whole = memory.whole.array(DType::kFloat32);
  const Array part = memory.part.array(DType::kFloat32);
  if (op == "reduce_scatter") return rank.ReduceScatter(whole, part, ReduceOp::kSum, at_once);
  if (op == "all_gather") return rank.AllGather(part, whole, at_once);
  return rank.AllReduce(whole, whole, ReduceOp::kSum, at_once);
}

nlohmann::json Measure(std::vector<std::unique_ptr<Communicator>>& ranks, const std::string& op, int64_t bytes) {
  const int iterations = bytes > (8 << 20) ? 15 : 300;
  std::vector<double> collective, copy;
  std::barrier together(static_cast<std::ptrdiff_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&] {
      const Memory memory(*rank, bytes);
      void* to = rank->device().HostAddress(memory.copy.array(DType::kUint8));
      const void* from = rank->device().HostAddress(memory.whole.array(DType::kUint8));
      for (int i = -2; i < iterations; ++i) {
        together.arrive_and_wait();
        const double moved = Seconds([&] { Issue(*rank, op, memory).Wait().IgnoreError(); });
        together.arrive_and_wait();
        const double copied = Seconds([&] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
        if (i < 0 || rank->rank() != 0) continue;
        collective.push_back(moved);
        copy.push_back(copied);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double median = Median(collective);
  return {{"op", op},
          {"bytes", bytes},
          {"ranks", ranks.size()},
          {"us_min", 1e6 * *std::min_element(collective.begin(), collective.end())},
          {"us_median", 1e6 * median},
          {"copy_us_median", 1e6 * Median(copy)},
          {"bytes_per_s", static_cast<double>(bytes) / median},
          {"ratio_to_copy", Median(copy) / median}};
}

int Main(int argc, char** argv) {
  const int world_size = argc > 1 ? std::clamp(std::atoi(argv[1]), 1, 64) : 2;
  std::vector<std::unique_ptr<device::Device>> owned;
  std::vector<device::Device*> devices;
  for (int r = 0; r < world_size; ++r) {
    owned.push_back(device::MakeCpuDevice());
    devices.push_back(owned.back().get());
  }
  for (const bool mapped : {true, false}) {
    InProcessOptions options;
    options.mapped = mapped;
    auto ranks = MakeInProcessGroup(devices, options);
    if (!ranks.ok()) {
      std::cerr << ranks.status() << "\n";
      return 1;
    }
    for (const int64_t bytes : {int64_t{4096}, int64_t{1} << 20, int64_t{64} << 20}) {
      for (const char* op : {"reduce_scatter", "all_gather", "all_reduce"}) {
        nlohmann::json line = Measure(*ranks, op, bytes / world_size / 4 * world_size * 4);
        line["mapped"] = mapped;
        std::cout << line.dump() << std::endl;
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace zeroshard::backends

int main(int argc, char** argv) {
  try {
    return zeroshard::backends::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
