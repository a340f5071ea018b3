// What comes to the rendezvous: greetings, beats, terms, values and counters, statuses; and token files.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/comm/rendezvous/greeting.h"
#include "zeroshard/comm/rendezvous/rendezvous.pb.h"
#include "zeroshard/comm/rendezvous/roll.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/rendezvous/token_file.h"
#include "zeroshard/comm/rendezvous/values.h"
#include "zeroshard/comm/rendezvous/wire.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::comm {
namespace {

constexpr char kToken[] = "0123456789abcdef";

void Greet(const std::string& bytes) {
  RendezvousGreeting greeting = {};
  std::memcpy(&greeting, bytes.data(), std::min(bytes.size(), sizeof(greeting)));
  if (ShowsToken(greeting, kToken)) CHECK_EQ(std::string(greeting.token, greeting.token_bytes), kToken);
}

void TakeBeat(const std::string& bytes) {
  rendezvous::Beat beat;
  if (!beat.ParseFromString(bytes)) return;
  const LastOperation last = FromWire(beat.last());
  (void)Describe(last);
  Roll roll(4, absl::Seconds(1));
  const absl::Time now = absl::Now();
  for (int rank = 0; rank < 4; ++rank) CHECK(roll.Come(rank, now).ok());
  roll.Beat(1, last, now);
  if (beat.farewell()) roll.Lose(1, now);
  (void)roll.Missing(now + absl::Seconds(3));
  CHECK_EQ(FromWire(ToWire(last)).number, last.number);
}

void TakeValues(const std::string& bytes) {
  rendezvous::SetRequest set;
  rendezvous::AddRequest add;
  Values values;
  if (set.ParseFromString(bytes)) (void)values.Set(set.key(), set.value());
  if (add.ParseFromString(bytes)) (void)values.Add(add.key(), add.delta());
  if (add.ParseFromString(bytes)) (void)values.Add(add.key(), add.delta());
  rendezvous::JoinRequest join;
  if (join.ParseFromString(bytes)) (void)join.DebugString();
}

void ReadToken(const std::string& bytes) {
  static const std::string& path = *new std::string(
      (std::filesystem::temp_directory_path() / ("zeroshard-fuzz-token." + std::to_string(getpid()))).string());
  FILE* const file = fopen(path.c_str(), "w");
  CHECK(file != nullptr);
  chmod(path.c_str(), 0600);
  fwrite(bytes.data(), 1, bytes.size(), file);
  fclose(file);
  const auto token = ReadTokenFile(path);
  unlink(path.c_str());
  if (token.ok() && token->has_value()) CHECK_LE((*token)->size(), size_t{kMostTokenBytes});
}

void ReadAddress(const std::string& bytes) { (void)ParseServiceAddress(bytes); }

}  // namespace
}  // namespace zeroshard::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::comm;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&Greet, &TakeBeat, &TakeValues, &ReadToken, &ReadAddress}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::comm;  // NOLINT(google-build-using-namespace)
  LastOperation last;
  last.number = 41;
  last.label = {'b', 'l', 'o', 'c', 'k'};
  rendezvous::Beat beat;
  beat.set_rank(1);
  *beat.mutable_last() = ToWire(last);
  rendezvous::SetRequest set;
  set.set_key("address/1");
  set.set_value("10.0.0.3 4711");
  rendezvous::AddRequest add;
  add.set_key("made");
  add.set_delta(-1);
  rendezvous::JoinRequest join;
  join.set_rank(1);
  join.add_terms()->set_name("--backend");
  return {'\0' + BytesOf(MakeRendezvousGreeting(kToken)),
          '\1' + beat.SerializeAsString(),
          '\2' + set.SerializeAsString(),
          '\2' + add.SerializeAsString(),
          '\2' + join.SerializeAsString(),
          std::string("\3") + "  0123456789abcdef0123456789abcdef\n",
          std::string("\4[fd00::3]:29500")};
}
