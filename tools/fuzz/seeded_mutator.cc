// libFuzzer's mutations, which begin at the target's seeds: no folder of them need be given.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "zeroshard/tools/fuzz/fuzz_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  static const auto& seeds = *new std::vector<std::string>(zeroshard::fuzz::Seeds());
  if (!seeds.empty() && seed % 64 == 0) {
    const std::string& chosen = seeds[seed / 64 % seeds.size()];
    size = std::min(chosen.size(), most);
    std::memcpy(data, chosen.data(), size);
    if (seed % 128 == 0) return size;
  }
  return LLVMFuzzerMutate(data, size, most);
}
