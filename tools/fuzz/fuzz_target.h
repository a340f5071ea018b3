// A fuzz target: a function that takes bytes as a peer may send them, and must come through; and some that are well formed.
//
// zs_fuzz_target (tools/cc.bzl) makes two programs of it. NAME_test feeds it its seeds and mutations of them under any build. NAME is
// libFuzzer's, and starts from the same seeds:
//   bazel run --config=fuzz //comm/fuzz:operation_header -- -max_total_time=120
//
// Example:
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { Parse(data, size); return 0; }
//   std::vector<std::string> zeroshard::fuzz::Seeds() { return {Format(something)}; }
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace zeroshard::fuzz {

std::vector<std::string> Seeds();

// The bytes of a struct, for seeds.
template <class T>
std::string BytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Of a target of several parsers: the first byte of an input says which of them takes the others. Gives what a target does.
inline int FeedOneOf(std::initializer_list<void (*)(const std::string& bytes)> parsers, const uint8_t* data, size_t size) {
  if (size > 0) parsers.begin()[data[0] % parsers.size()](std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}

// Whether a message holds nothing that a terminal obeys.
template <class Text>
bool Prints(const Text& message) {
  return std::none_of(message.begin(), message.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

}  // namespace zeroshard::fuzz
