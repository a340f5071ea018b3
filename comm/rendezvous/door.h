// Door: where rank 0 listens, and who is let in. Only a connection that has shown the job's token is handed on.
//
// One thread. A stranger may be silent, speak garbage, close half, or come ten thousand times: visitors are few at once (the
// oldest leaves for the newest), stay for seconds at most, and cost a fixed number of bytes each. Who is turned away is logged,
// once a second at most.
//
// Example:
//   Door door(std::move(listeners), token, [&](Socket rank) { server.Adopt(std::move(rank)); });
#pragma once

#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "zeroshard/comm/rendezvous/greeting.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {

class Door {
 public:
  // On the door's thread: a connected socket, non-blocking, that was welcomed.
  using Admit = std::function<void(Socket rank)>;

  // `listeners` listen; `most_admitted` connections are let in at the most.
  Door(std::vector<Socket> listeners, std::string token, int most_admitted, Admit admit);
  // Stops listening.
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

 private:
  struct Visitor {
    Socket socket;
    absl::Time since;
    RendezvousGreeting greeting = {};
    size_t have = 0;
  };

  void Listen();
  void Accept(const Socket& listener);
  // Reads on; false where the visitor is done with, well or badly.
  bool Hear(Visitor& visitor);
  void TurnAway(const Visitor& visitor, const char* why);

  const std::vector<Socket> listeners_;
  const std::string token_;
  const int most_admitted_;
  const Admit admit_;
  Socket stop_;  // an eventfd
  std::list<Visitor> visitors_;
  int admitted_ = 0;
  int turned_away_ = 0;  // since it was last said
  absl::Time last_said_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace zeroshard::comm
