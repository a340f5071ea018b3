// HostGrid: a group's ranks as its hosts hold them, where each host holds as many ranks in a row.
//
// Example: ranks 0 to 7 on two hosts.    {.hosts = 2, .each = 4}: rank 6 is at place 2 of host 1
#pragma once

#include "zeroshard/comm/transport.h"

namespace zeroshard::comm {

struct HostGrid {
  int hosts = 1;
  int each = 1;  // ranks of a host

  // Whether there is a way within a host and one between hosts.
  bool two_levels() const { return hosts > 1 && each > 1; }
  // Whether a host's ranks are a node of the tree over ranks (tree.h), so that they may be added first.
  bool hosts_are_nodes() const { return (each & (each - 1)) == 0; }
  int HostOf(int rank) const { return rank / each; }
  int PlaceOf(int rank) const { return rank % each; }
  int RankAt(int host, int place) const { return host * each + place; }
};

// The same on all ranks. One host where hosts hold unlike numbers of ranks, or not in a row.
HostGrid HostGridOf(const Transport& transport);

}  // namespace zeroshard::comm
