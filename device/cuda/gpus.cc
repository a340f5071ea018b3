#include "zeroshard/device/cuda/gpus.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/device/cuda/architectures.h"
#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/cuda/kernel_list.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

constexpr char kOtherwise[] = "or leave out --device=cuda and --backend=nccl";

// 13000 -> "13.0"
std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// "GPU-8a6c..." as nvidia-smi writes it.
std::string UuidText(const cudaUUID_t& uuid) {
  const std::string hex = absl::BytesToHexString({uuid.bytes, sizeof uuid.bytes});
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

absl::StatusOr<Gpu> Describe(int ordinal) {
  cudaDeviceProp properties;
  ZS_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, ordinal), absl::StrCat("asking device ", ordinal)));
  int clock_khz = 0;
  ZS_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal),
                                absl::StrCat("asking device ", ordinal)));
  return Gpu{
      .ordinal = ordinal,
      .name = properties.name,
      .architecture = absl::StrCat("sm_", properties.major, properties.minor),
      .capability = 10 * properties.major + properties.minor,
      .uuid = UuidText(properties.uuid),
      .bus_id = absl::StrFormat("%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID),
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
      .multiprocessors = properties.multiProcessorCount,
      .clock_hz = clock_khz * 1e3};
}

// A driver too old and none at all give the same error; only the version tells them apart.
absl::Status DriverError() {
  int has = 0, needs = 0;
  cudaDriverGetVersion(&has);
  cudaRuntimeGetVersion(&needs);
  if (has == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no NVIDIA driver: install one for CUDA ", VersionText(needs), ", ", kOtherwise));
  }
  return absl::FailedPreconditionError(absl::StrCat("the NVIDIA driver is too old: it has CUDA ", VersionText(has),
                                                    ", this program needs ", VersionText(needs), "; update it, ",
                                                    kOtherwise));
}

absl::Status NoImageError(const Gpu& gpu) {
  return absl::FailedPreconditionError(absl::StrCat("no kernel image for ", gpu.name, " (", gpu.architecture,
                                                    "): this program has ", kArchitectures,
                                                    "; use another card (CUDA_VISIBLE_DEVICES), ", kOtherwise));
}

absl::Status NoDeviceError() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string why = visible == nullptr ? "" : absl::StrCat(" with CUDA_VISIBLE_DEVICES=", visible);
  return absl::FailedPreconditionError(
      absl::StrCat("no GPU: the NVIDIA driver shows none", why, "; see nvidia-smi, ", kOtherwise));
}

// Of bf16 and fp16. The first whose words are all in the card's name.
struct DataSheet {
  const char* card;
  const char* form;
  double flops;
};
constexpr DataSheet kDataSheets[] = {{"A100", "", 312e12},   {"H100", "PCIe", 756e12}, {"H100", "NVL", 835e12},
                                     {"H100", "", 989.4e12}, {"H200", "NVL", 835e12},  {"H200", "", 989.4e12}};

// Of one multiprocessor in a cycle; a multiply and add are two. Where cards of one architecture differ (GeForce do half in two bytes), the
// most.
struct OfACycle {
  const char* architecture;
  double fp32, two_bytes;
};
constexpr OfACycle kCycles[] = {{"sm_80", 128, 2048},  {"sm_86", 256, 512},   {"sm_89", 256, 1024}, {"sm_90", 256, 4096},
                                {"sm_100", 256, 8192}, {"sm_103", 256, 8192}, {"sm_120", 256, 1024}};

}  // namespace

double DensePeakFlops(const Gpu& gpu, DType dtype) {
  if (dtype != DType::kFloat32) {
    for (const DataSheet& sheet : kDataSheets) {
      if (absl::StrContains(gpu.name, sheet.card) && absl::StrContains(gpu.name, sheet.form)) return sheet.flops;
    }
  }
  for (const OfACycle& cycle : kCycles) {
    if (gpu.architecture != cycle.architecture) continue;
    return (dtype == DType::kFloat32 ? cycle.fp32 : cycle.two_bytes) * gpu.multiprocessors * gpu.clock_hz;
  }
  return 0;
}

absl::StatusOr<std::vector<Gpu>> FindGpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) return DriverError();
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) return NoDeviceError();
  if (error != cudaSuccess) {
    return absl::FailedPreconditionError(CudaStatus(error, "looking for GPUs").message());
  }
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    ZS_ASSIGN_OR_RETURN(gpus.emplace_back(), Describe(ordinal));
  }
  return gpus;
}

absl::Status CheckArchitecture(const Gpu& gpu) {
  return gpu.capability < kLeastArchitecture ? NoImageError(gpu) : absl::OkStatus();
}

absl::Status LoadKernels(const Gpu& gpu) {
  for (const LinkedKernel* kernel = LinkedKernels(); kernel != nullptr; kernel = kernel->next) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel->function);
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
        error == cudaErrorUnsupportedPtxVersion) {
      return NoImageError(gpu);
    }
    ZS_RETURN_IF_ERROR(CudaStatus(error, absl::StrCat("loading ", kernel->name)));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::device::cuda
