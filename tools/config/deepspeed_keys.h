// Every key that DeepSpeed's configuration knows, by its path, and what becomes of it here.
//
// Facts of DeepSpeed's documentation ("DeepSpeed Configuration JSON") and of its configuration classes.
//
// Example:
//   const DeepSpeedKey* key = FindDeepSpeedKey("zero_optimization.reduce_bucket_size");
//   key->treatment;   // kInteger
//   key->flag;        // "reduce_bucket_size"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::tools {

struct DeepSpeedKey {
  enum class Treatment : uint8_t {
    kSection,   // an object whose keys follow
    kInteger,   // a whole number for `flag`; 5e8 is one
    kReal,      // a number for `flag`
    kBoolean,   // a boolean for `flag`
    kText,      // a text for `flag`
    kSpecial,   // deepspeed_config.cc turns it into flags
    kNoEffect,  // accepted; `why` says in what it changes nothing
    kRefused,   // `why`; accepted where its value is `off`, or an object with "enabled": false
  };
  std::string_view path;
  Treatment treatment;
  std::string_view flag = {};
  std::string_view off = {};
  std::string_view why = {};
};

std::span<const DeepSpeedKey> DeepSpeedKeys();
// Null where DeepSpeed has no such key.
const DeepSpeedKey* FindDeepSpeedKey(std::string_view path);
// The keys of one section ("" is the outermost), without its path.
std::vector<std::string> DeepSpeedKeysOf(std::string_view section);
// The sections that have a key of this name.
std::vector<std::string> SectionsWith(std::string_view key);

}  // namespace zeroshard::tools
