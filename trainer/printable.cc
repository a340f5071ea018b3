#include "zeroshard/trainer/printable.h"

#include <algorithm>
#include <cstdint>

namespace zeroshard::trainer {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes of the well-formed character that `text` begins with; 0 if there is none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xc2 && lead < 0xe0   ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, a surrogate, or beyond the last character; and U+0080 to U+009F, which terminals obey.
  const bool bad = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                   (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90) || (lead == 0xc2 && byte(1) < 0xa0);
  return bad ? 0 : bytes;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const bool control = bytes == 1 && (text[0] < ' ' || text[0] == 0x7f) && text[0] != '\n' && text[0] != '\t';
    shown += bytes == 0 ? kReplacement : control ? std::string_view("?") : text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(1, bytes));
  }
  return shown;
}

}  // namespace zeroshard::trainer
