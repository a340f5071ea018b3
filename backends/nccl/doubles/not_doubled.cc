// The double of NCCL: the calls that we never make. Each ends the test by its name.
#include <string>

#include "zeroshard/device/late/end_test.h"

#define ZS_NOT_DOUBLED(call) \
  void call() { zeroshard::device::EndTest(#call " is called, which the double of NCCL does not have"); }

// Without nccl.h: they never come back, so that what they are called with does not matter.
extern "C" {

ZS_NOT_DOUBLED(ncclAlltoAll)
ZS_NOT_DOUBLED(ncclBcast)
ZS_NOT_DOUBLED(ncclCommCount)
ZS_NOT_DOUBLED(ncclCommCuDevice)
ZS_NOT_DOUBLED(ncclCommFinalize)
ZS_NOT_DOUBLED(ncclCommInitAll)
ZS_NOT_DOUBLED(ncclCommInitRank)
ZS_NOT_DOUBLED(ncclCommInitRankScalable)
ZS_NOT_DOUBLED(ncclCommRevoke)
ZS_NOT_DOUBLED(ncclCommShrink)
ZS_NOT_DOUBLED(ncclCommUserRank)
ZS_NOT_DOUBLED(ncclGather)
ZS_NOT_DOUBLED(ncclGroupSimulateEnd)
ZS_NOT_DOUBLED(ncclRedOpCreatePreMulSum)
ZS_NOT_DOUBLED(ncclRedOpDestroy)
ZS_NOT_DOUBLED(ncclScatter)

}  // extern "C"
