// The double of cuBLASLt: products, as plain loops whose sums are fp64 or, by the other algorithm, fp32, rounded once.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <span>
#include <vector>

#include "zeroshard/device/array.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/doubles/cublaslt_descriptors.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#include "zeroshard/device/cuda/doubles/loading.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device::cuda::doubles {
namespace {

float Load(const std::byte* at, cudaDataType type) {
  if (type == CUDA_R_32F) {
    float x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return type == CUDA_R_16BF ? ToFloat(Bfloat16{bits}) : ToFloat(Float16{bits});
}

void Store(std::byte* at, cudaDataType type, double value) {
  const float x = static_cast<float>(value);
  if (type == CUDA_R_32F) {
    std::memcpy(at, &x, sizeof x);
    return;
  }
  const uint16_t bits = type == CUDA_R_16BF ? ToBfloat16(x).bits : ToFloat16(x).bits;
  std::memcpy(at, &bits, sizeof bits);
}

// op(matrix) in fp32, column-major; transposed: the matrix's transpose.
std::vector<float> Widened(std::span<const std::byte> matrix, const MatrixDescription& m, bool transpose) {
  std::vector<float> values(static_cast<size_t>(m.rows * m.columns));
  for (int64_t column = 0; column < m.columns; ++column) {
    for (int64_t row = 0; row < m.rows; ++row) {
      const float x = Load(matrix.data() + (column * m.leading + row) * BytesOf(m.type), m.type);
      values[static_cast<size_t>(transpose ? row * m.columns + column : column * m.rows + row)] = x;
    }
  }
  return values;
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

// D [rows, columns] = alpha op(A) op(B) + beta D (+ bias of [rows]).
struct Product {
  MatmulDescription description;
  MatrixDescription a, b, d;
  int64_t inner;
  float alpha, beta;
  bool adds_in_fp32 = false;

  void operator()(std::span<const std::byte> a_memory, std::span<const std::byte> b_memory, std::span<std::byte> d_memory,
                  std::span<const std::byte> bias, std::span<std::byte> auxiliary, std::span<std::byte> workspace) const {
    if (!workspace.empty()) workspace[0] = std::byte{1};
    const std::vector<float> left = Widened(a_memory, a, description.transpose_a == CUBLAS_OP_T);
    const std::vector<float> right = Widened(b_memory, b, description.transpose_b == CUBLAS_OP_T);
    const auto rows = static_cast<size_t>(d.rows);
    // A run measures what a device can do by products of zeros, which are to cost nothing here.
    const bool finite = std::all_of(left.begin(), left.end(), [](float x) { return std::isfinite(x); });
    std::vector<double> sums(rows);
    for (int64_t column = 0; column < d.columns; ++column) {
      sums.assign(rows, 0);
      for (int64_t k = 0; k < inner; ++k) {
        const double factor = right[static_cast<size_t>(column * inner + k)];
        if (factor == 0 && finite) continue;
        const float* x = left.data() + static_cast<size_t>(k) * rows;
        for (size_t row = 0; row < rows; ++row) {
          sums[row] += factor * x[row];
          if (adds_in_fp32) sums[row] = static_cast<float>(sums[row]);
        }
      }
      Finish(sums, d_memory.data() + column * d.leading * BytesOf(d.type), bias.data(),
             auxiliary.data() + column * d.rows * BytesOf(d.type));
    }
  }

  void Finish(const std::vector<double>& sums, std::byte* to, const std::byte* bias, std::byte* auxiliary) const {
    const auto step = static_cast<size_t>(BytesOf(d.type));
    for (size_t row = 0; row < sums.size(); ++row) {
      double value = alpha * sums[row];
      if (beta != 0) value += static_cast<double>(beta) * Load(to + row * step, d.type);
      if (description.bias != nullptr) value += Load(bias + row * step, d.type);
      if (description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        Store(auxiliary + row * step, d.type, value);
        value = Gelu(value);
      }
      Store(to + row * step, d.type, value);
    }
  }
};

Array Bytes(const void* address, int64_t bytes) {
  return Array(reinterpret_cast<uint64_t>(address), address == nullptr ? 0 : bytes, DType::kUint8);
}

int64_t BytesOf(const MatrixDescription& m) { return m.leading * m.columns * doubles::BytesOf(m.type); }

void CheckAlgorithm(const Product& p, const cublasLtMatmulAlgo_t& algorithm) {
  if (algorithm.data[0] != Fingerprint(p.description, p.a, p.b, p.d)) {
    NotDoubled("cublasLtMatmul", "an algorithm that was chosen for another product");
  }
  if (algorithm.data[1] == 0) NotDoubled("cublasLtMatmul", "an algorithm that the heuristics called unsupported");
}

// What the search was told of the operands' alignment, by rows; the double takes no less than an element's.
void CheckAligned(const Array& operand, cudaDataType type) {
  if (operand.address() % static_cast<uint64_t>(doubles::BytesOf(type)) != 0) {
    NotDoubled("cublasLtMatmul", "an operand that is not aligned to its elements");
  }
}

void CheckShapes(const Product& p) {
  const bool a = p.description.transpose_a == CUBLAS_OP_T, b = p.description.transpose_b == CUBLAS_OP_T;
  const int64_t inner = b ? p.b.columns : p.b.rows;
  if ((a ? p.a.columns : p.a.rows) != p.d.rows || (b ? p.b.rows : p.b.columns) != p.d.columns || inner != p.inner) {
    NotDoubled("cublasLtMatmul", "matrices that do not fit");
  }
  const MatmulDescription& product = p.description;
  if (product.auxiliary != nullptr &&
      (product.auxiliary_rows != p.d.rows || product.auxiliary_rows % 8 != 0 ||
       reinterpret_cast<uintptr_t>(product.auxiliary) % 16 != 0 || p.d.leading != p.d.rows)) {
    NotDoubled("cublasLtMatmul",
               "GELU's input in columns that are not dense, of no multiple of 8 rows, or not aligned to 16 bytes");
  }
  const int32_t bias_type = p.description.bias_type;
  if (p.description.epilogue != CUBLASLT_EPILOGUE_DEFAULT && bias_type != -1 && bias_type != p.d.type) {
    NotDoubled("cublasLtMatmul", "a bias of another type than the output's");
  }
}

}  // namespace
}  // namespace zeroshard::device::cuda::doubles

using namespace zeroshard::device::cuda::doubles;  // NOLINT(google-build-using-namespace): the functions are C's
using zeroshard::device::HostLaunch;

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void* alpha, const void* a,
                                         cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                                         const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                                         cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                                         void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  StreamQueue queue(&Checked(stream, "cublasLtMatmul"));
  if (DoubleDevices::Get().error(stream->device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (c != d) NotDoubled("cublasLtMatmul", "a product that is not in place");
  Product product{.description = MatmulDescription::Of(descriptor),
                  .a = MatrixDescription::Of(a_layout),
                  .b = MatrixDescription::Of(b_layout),
                  .d = MatrixDescription::Of(d_layout),
                  .inner = 0,
                  .alpha = *static_cast<const float*>(alpha),
                  .beta = *static_cast<const float*>(beta)};
  product.inner = product.description.transpose_a == CUBLAS_OP_T ? product.a.rows : product.a.columns;
  if (product.description.epilogue == CUBLASLT_EPILOGUE_DEFAULT) product.description.bias = nullptr;
  if (product.description.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) product.description.auxiliary = nullptr;
  CheckShapes(product);
  CheckAlgorithm(product, *algorithm);
  product.adds_in_fp32 = algorithm->data[1] == kAddsInFp32;
  Loading::Get().Use(stream->device, {.number = algorithm->data[0], .variant = algorithm->data[1]}, "cublasLtMatmul",
                     "an algorithm");
  const auto left = Bytes(a, BytesOf(product.a)), right = Bytes(b, BytesOf(product.b)), out = Bytes(d, BytesOf(product.d));
  CheckAligned(left, product.a.type);
  CheckAligned(right, product.b.type);
  CheckAligned(out, product.d.type);
  const auto bias = Bytes(product.description.bias, product.d.rows * BytesOf(product.d.type));
  const auto auxiliary = Bytes(product.description.auxiliary, BytesOf(product.d));
  const auto room = Bytes(workspace, static_cast<int64_t>(workspace_bytes));
  using std::byte;
  using namespace zeroshard::device;  // NOLINT(google-build-using-namespace)
  HostLaunch(queue, "product", product, Read<byte>(left), Read<byte>(right), Update<byte>(out), Read<byte>(bias),
             Write<byte>(auxiliary), Update<byte>(room));
  return CUBLAS_STATUS_SUCCESS;
}
