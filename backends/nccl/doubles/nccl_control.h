// What a test tells the double of NCCL.
//
// The double carries NCCL's calls, those that we make, between processes and threads over shared memory; operations are queued on the
// streams of the CUDA runtime's double. It ends the test by name (exit code 99) where NCCL leaves undefined what happens: ranks whose
// calls differ, or whose memory lies elsewhere in a window, a communicator that is used when it is gone, or on a thread with another
// device, or destroyed while it is used, a group that is left open or ends behind a stream's full queue, memory that is registered on one
// rank and not on another; and at any other call of NCCL. Its sums go down from the last rank, rounded at every hop:
// not by our tree, on purpose. Its maximum and minimum drop NaN, as NCCL's.
//
// Example:
//   doubles::SetNcclVersion(22703);
#pragma once

#include <cstdint>

namespace zeroshard::backends::doubles {

// What ncclGetVersion gives; default: as ZEROSHARD_DOUBLE_NCCL says (22703: 2.27.3), else the header's.
void SetNcclVersion(int version);
// Whether ncclCommWindowRegister makes windows; default true. Else it gives success and none, as NCCL where there is no support.
void SetNcclWindows(bool supported);
// Whether it fails on that rank, where the others make theirs; default: on none.
void SetNcclWindowFails(int rank);
// Whether ncclCommRegister fails.
void SetNcclRegisterFails(bool fails);
// Whether ncclCommAbort never comes back.
void SetNcclAbortHangs(bool hangs);
// How many calls of it there were.
int64_t NcclAborts();

// How many pieces of memory ncclMemAlloc has given that were not given back, and how many are registered, on all communicators.
int64_t NcclPieces();
int64_t NcclRegistrations();

}  // namespace zeroshard::backends::doubles
