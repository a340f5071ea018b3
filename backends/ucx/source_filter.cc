#include "zeroshard/backends/ucx/source_filter.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::backends {
namespace {

constexpr uint32_t kAll = 0xffffffff;  // bytes of a packet to keep

// Where packets say who sent them, beyond the beginning of IP's header.
constexpr uint32_t kSource4 = 12, kSource6 = 8;

sock_filter Statement(uint16_t code, uint32_t value) { return {.code = code, .jt = 0, .jf = 0, .k = value}; }

// An address as the filter compares it; no words where it is of another family.
std::vector<uint32_t> WordsOf(const std::string& source, int family) {
  sockaddr_storage address = {};
  if (comm::MakeSocketAddress(source, 0, address) == 0 || address.ss_family != family) return {};
  std::vector<uint32_t> words(family == AF_INET ? 1 : 4);
  const void* const bytes = family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                                : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  std::memcpy(words.data(), bytes, words.size() * sizeof(uint32_t));
  for (uint32_t& word : words) word = ntohl(word);
  return words;
}

}  // namespace

absl::Status AllowOnly(int socket, std::span<const std::string> sources) {
  sockaddr_storage own = {};
  socklen_t length = sizeof(own);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      (own.ss_family != AF_INET && own.ss_family != AF_INET6)) {
    return absl::InvalidArgumentError(absl::StrCat("descriptor ", socket, " is no socket of IP"));
  }
  const bool v4 = own.ss_family == AF_INET;
  const uint32_t first = static_cast<uint32_t>(SKF_NET_OFF) + (v4 ? kSource4 : kSource6);
  std::vector<sock_filter> program;
  for (uint32_t i = 0; i < (v4 ? 1U : 4U); ++i) {
    program.push_back(Statement(BPF_LD | BPF_W | BPF_ABS, first + i * 4));
    program.push_back(Statement(BPF_ST, i));
  }
  for (const std::string& source : sources) {
    const std::vector<uint32_t> words = WordsOf(source, own.ss_family);
    for (size_t i = 0; i < words.size(); ++i) {
      program.push_back(Statement(BPF_LD | BPF_MEM, static_cast<uint32_t>(i)));
      sock_filter same = Statement(BPF_JMP | BPF_JEQ | BPF_K, words[i]);
      same.jf = static_cast<uint8_t>(2 * (words.size() - i) - 1);  // to what follows the return
      program.push_back(same);
    }
    if (!words.empty()) program.push_back(Statement(BPF_RET | BPF_K, kAll));
  }
  program.push_back(Statement(BPF_RET | BPF_K, 0));
  if (program.size() > BPF_MAXINSNS) return absl::ResourceExhaustedError("more addresses than a socket's filter holds");
  const sock_fprog filter = {.len = static_cast<uint16_t>(program.size()), .filter = program.data()};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0) {
    const std::string why = absl::StrCat("a filter of ", program.size(), " instructions: ", strerror(errno));
    return errno == ENOMEM ? absl::ResourceExhaustedError(why) : absl::PermissionDeniedError(why);
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::backends
