// Feeds a fuzz target its seeds, the files named on the command line, and random mutations of all, as many as a quick test may.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace {

constexpr std::chrono::seconds kMost{2};
constexpr int kMutations = 20'000;

void Feed(const std::string& bytes) {
  // On the heap and no longer than it is, so that AddressSanitizer sees who reads on.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Mutate(std::string bytes, const std::string& other) {
    for (uint64_t changes = 1 + random_() % 4; changes > 0; --changes) {
      const size_t at = bytes.empty() ? 0 : random_() % bytes.size();
      switch (random_() % 6) {
        case 0:
          if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
          break;
        case 1:
          if (!bytes.empty()) bytes[at] = kTelling[random_() % std::size(kTelling)];
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.insert(at, std::string(random_() % 9, static_cast<char>(random_())));
          break;
        case 4:
          bytes = bytes.substr(0, at) + other.substr(std::min(other.size(), static_cast<size_t>(at)));
          break;
        default:
          bytes.erase(at, random_() % 9);
          break;
      }
    }
    return bytes;
  }
  template <class T>
  const T& OneOf(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

 private:
  static constexpr char kTelling[] = {0, 1, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> inputs = zeroshard::fuzz::Seeds();
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::cerr << "cannot read " << argv[i] << '\n';
      return 1;
    }
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  inputs.emplace_back();
  const char* const asked = std::getenv("ZS_SEED");
  const uint64_t seed = asked == nullptr ? 1 : std::strtoull(asked, nullptr, 10);
  std::cerr << "seed " << seed << " (ZS_SEED), " << inputs.size() << " inputs\n";
  for (const std::string& input : inputs) Feed(input);
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + kMost;
  int done = 0;
  for (; done < kMutations && std::chrono::steady_clock::now() < end; ++done) {
    Feed(mutator.Mutate(mutator.OneOf(inputs), mutator.OneOf(inputs)));
  }
  std::cerr << done << " mutations\n";
  return 0;
}
