// Text that a model made up, as a terminal may see it.
//
// Example:
//   Printable("a\x1b[2J\xff");        // "a?[2J\ufffd"
#pragma once

#include <string>
#include <string_view>

namespace zeroshard::trainer {

// Line ends, tabs and well-formed UTF-8 stay; other control characters become '?', bytes of no character U+FFFD.
std::string Printable(std::string_view text);

}  // namespace zeroshard::trainer
