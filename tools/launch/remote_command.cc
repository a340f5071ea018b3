#include "zeroshard/tools/launch/remote_command.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace zeroshard::tools {
namespace {

std::string Quoted(const std::string& word) { return ShellQuoted(word); }

// What the shell on the other host runs. The program does not read the input: the lines there are for the shell.
std::string Script(const RemoteRank& rank) {
  std::string script = absl::StrCat("IFS= read -r ", rank.token_variable, " && export ", rank.token_variable);
  for (const auto& [name, value] : rank.variables) absl::StrAppend(&script, " ", name, "=", ShellQuoted(value));
  absl::StrAppend(&script, " && cd ", ShellQuoted(rank.folder), " || exit 2\n");
  absl::StrAppend(&script, "exec 3<&0\n");
  const auto quote = [](std::string* out, const std::string& word) { out->append(Quoted(word)); };
  absl::StrAppend(&script, absl::StrJoin(rank.command, " ", quote), " </dev/null 3<&- &\n");
  absl::StrAppend(&script, "rank=$!\n");
  absl::StrAppend(
      &script, "{ while read -r signal <&3; do kill -s \"$signal\" $rank; done; kill -s KILL $rank; } >/dev/null 2>&1 &\n");
  absl::StrAppend(&script, "orders=$!\nwait $rank\ncode=$?\nkill $orders 2>/dev/null\nexit $code\n");
  return script;
}

}  // namespace

std::string ShellQuoted(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"'", "'\\''"}}), "'");
}

absl::StatusOr<std::vector<std::string>> ParseHosts(std::string_view list) {
  const std::vector<std::string> hosts = absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  for (const std::string& host : hosts) {
    const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(".-_@:", absl::string_view(&c, 1));
    });
    if (plain && !host.empty() && host[0] != '-') continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--hosts=", absl::CHexEscape(absl::string_view(list.data(), list.size())), ": '", absl::CHexEscape(host),
        "' is no host; write names or addresses as ssh takes them: --hosts=node1,me@node2"));
  }
  return hosts;
}

std::string HostOf(std::string_view destination) {
  const size_t at = destination.rfind('@');
  return std::string(at == std::string_view::npos ? destination : destination.substr(at + 1));
}

std::vector<std::string> SshCommand(const RemoteRank& rank) {
  // The user's own shell there may be any; it hands the script on as one word.
  return {rank.ssh, "-T", "-o", "BatchMode=yes", "--", rank.host, absl::StrCat("exec sh -c ", ShellQuoted(Script(rank)))};
}

}  // namespace zeroshard::tools
