#include "zeroshard/backends/gloo/gloo_errors.h"

#include <exception>
#include <new>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gloo/common/error.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::backends {
namespace {

// Gloo's messages begin with "[/build/.../pair.cc:534] ", which helps nobody here.
std::string Words(const std::exception& error) {
  std::string_view words = error.what();
  if (words.starts_with('[')) {
    const size_t end = words.find("] ");
    if (end != std::string_view::npos) words.remove_prefix(end + 2);
  }
  return absl::StrCat("Gloo: ", std::string(words));
}

}  // namespace

absl::Status CallGloo(absl::FunctionRef<void()> call) {
  const device::VendorScope scope;
  try {
    call();
    return absl::OkStatus();
  } catch (const ::gloo::IoException& error) {
    return absl::UnavailableError(Words(error));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("Gloo: out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(Words(error));
  } catch (...) {
    return absl::InternalError("Gloo: an exception of no known type");
  }
}

}  // namespace zeroshard::backends
