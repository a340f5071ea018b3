// The double of cuBLASLt: what products, matrices and searches are described by. Attributes and values that we do not use end the test.
#include "zeroshard/device/cuda/doubles/cublaslt_descriptors.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "zeroshard/device/cuda/doubles/double_devices.h"

namespace zeroshard::device::cuda::doubles {
namespace {

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

template <class T>
T As(const void* value, size_t bytes, const char* call) {
  if (bytes != sizeof(T)) NotDoubled(call, "a value of " + std::to_string(bytes) + " bytes");
  T result;
  std::memcpy(&result, value, sizeof result);
  return result;
}

bool IsDoubled(cublasLtEpilogue_t epilogue) {
  constexpr std::array kDoubled = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  return std::find(kDoubled.begin(), kDoubled.end(), epilogue) != kDoubled.end();
}

}  // namespace

int64_t BytesOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      NotDoubled("cublasLtMatrixLayoutCreate", "matrices of type " + std::to_string(type));
  }
}

uint64_t Fingerprint(const MatmulDescription& product, const MatrixDescription& a, const MatrixDescription& b,
                     const MatrixDescription& d) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a's
  const auto add = [&](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u; };
  for (const MatrixDescription* m : {&a, &b, &d}) {
    add(m->type);
    add(m->rows);
    add(m->columns);
    add(m->leading);
  }
  add(product.transpose_a);
  add(product.transpose_b);
  add(product.epilogue);
  return hash;
}

}  // namespace zeroshard::device::cuda::doubles

using namespace zeroshard::device::cuda::doubles;  // NOLINT(google-build-using-namespace): the functions are C's

struct cublasLtContext {
  int device;
};

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{CurrentDevice()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() {
  const char* const set = std::getenv("ZEROSHARD_DOUBLE_CUBLASLT");
  return set == nullptr ? CUBLAS_VERSION : static_cast<size_t>(std::atoi(set));
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  thread_local std::string text;
  text = "status " + std::to_string(status) + " of the double";
  return text.c_str();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    NotDoubled("cublasLtMatmulDescCreate", "sums that are not fp32's");
  *descriptor = reinterpret_cast<cublasLtMatmulDesc_t>(new MatmulDescription);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete &MatmulDescription::Of(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  constexpr char kCall[] = "cublasLtMatmulDescSetAttribute";
  MatmulDescription& product = MatmulDescription::Of(descriptor);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      product.transpose_a = As<cublasOperation_t>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      product.transpose_b = As<cublasOperation_t>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      product.epilogue = As<cublasLtEpilogue_t>(value, bytes, kCall);
      if (!IsDoubled(product.epilogue)) NotDoubled(kCall, "epilogue " + std::to_string(product.epilogue));
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      product.bias = As<const void*>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      product.bias_type = As<int32_t>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      product.auxiliary = As<void*>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      product.auxiliary_rows = As<int64_t>(value, bytes, kCall);
      break;
    default:
      NotDoubled(kCall, "attribute " + std::to_string(attribute));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) NotDoubled("cublasLtMatrixLayoutCreate", "a matrix whose columns overlap");
  BytesOf(type);
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new MatrixDescription{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &MatrixDescription::Of(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  constexpr char kCall[] = "cublasLtMatmulPreferenceSetAttribute";
  Preference& wanted = *reinterpret_cast<Preference*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      wanted.workspace_bytes = As<uint64_t>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      wanted.reductions = As<uint32_t>(value, bytes, kCall);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      As<uint32_t>(value, bytes, kCall);
      break;
    default:
      NotDoubled(kCall, "attribute " + std::to_string(attribute));
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Two algorithms, in the order that SetHeuristic says, and before them one that is none.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  constexpr char kCall[] = "cublasLtMatmulAlgoGetHeuristic";
  const Preference& wanted = *reinterpret_cast<Preference*>(preference);
  constexpr uint32_t kOutputType = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  if ((wanted.reductions & kOutputType) != 0) NotDoubled(kCall, "sums that may be added in the output's type");
  if (c != d) NotDoubled(kCall, "a product that is not in place");
  if (asked < 3) NotDoubled(kCall, "fewer than three answers asked for");
  const uint64_t fingerprint = Fingerprint(MatmulDescription::Of(descriptor), MatrixDescription::Of(a),
                                           MatrixDescription::Of(b), MatrixDescription::Of(d));
  const int heuristic = DoubleDevices::Get().heuristic();
  const bool second_first = heuristic == 1 || (heuristic == 2 && handle->device % 2 == 1);
  const std::array<uint64_t, 3> order = {0, second_first ? kAddsInFp32 : kAddsInFp64,
                                         second_first ? kAddsInFp64 : kAddsInFp32};
  *count = static_cast<int>(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    results[i] = {};
    results[i].state = i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = wanted.workspace_bytes;
    results[i].algo.data[0] = fingerprint;
    results[i].algo.data[1] = order[i];
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  if (c != d) NotDoubled("cublasLtMatmulAlgoCheck", "a product that is not in place");
  *result = {};
  const uint64_t fingerprint = Fingerprint(MatmulDescription::Of(descriptor), MatrixDescription::Of(a),
                                           MatrixDescription::Of(b), MatrixDescription::Of(d));
  if (algorithm->data[0] != fingerprint || algorithm->data[1] > kAddsInFp32) return CUBLAS_STATUS_INVALID_VALUE;
  return algorithm->data[1] == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
