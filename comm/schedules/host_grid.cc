#include "zeroshard/comm/schedules/host_grid.h"

namespace zeroshard::comm {

HostGrid HostGridOf(const Transport& transport) {
  const int n = transport.world_size();
  const HostGrid one = {.hosts = 1, .each = n};
  int each = 1;
  while (each < n && transport.host(each) == 0) ++each;
  if (n % each != 0) return one;
  for (int rank = 0; rank < n; ++rank) {
    if (transport.host(rank) != rank / each * each) return one;
  }
  return {.hosts = n / each, .each = each};
}

}  // namespace zeroshard::comm
