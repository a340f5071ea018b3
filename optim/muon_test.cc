#include "zeroshard/optim/muon.h"

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/optim/optimizer.h"

namespace zeroshard::optim {
namespace {

using device::Array;
using device::Buffer;
using device::DType;
using device::StepScalars;
using device::Use;
using ::testing::HasSubstr;
using Matrix = std::vector<double>;  // [rows * columns]

constexpr double kLearningRate = 0.1, kDecay = 0.2, kMomentum = 0.9;

std::vector<float> Normal(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

Matrix Product(const Matrix& a, const Matrix& b, size_t m, size_t k, size_t n) {
  Matrix c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a, size_t rows, size_t columns) {
  Matrix t(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

// The paper's five steps in fp64, as it writes them: a tall matrix is transposed.
Matrix Orthogonalized(Matrix x, size_t rows, size_t columns) {
  if (rows > columns) return Transposed(Orthogonalized(Transposed(x, rows, columns), columns, rows), columns, rows);
  double norm = 0;
  for (double v : x) norm += v * v;
  for (double& v : x) v /= std::sqrt(norm) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix a = Product(x, Transposed(x, rows, columns), rows, columns, rows);
    Matrix b = Product(a, a, rows, rows, rows);
    for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
    const Matrix bx = Product(b, x, rows, rows, columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  return x;
}

Run Whole(MatrixShape shape) {
  return {.first = 0, .count = shape.rows * shape.columns, .group = 0, .rows = shape.rows, .columns = shape.columns};
}

class MuonTest : public ::testing::TestWithParam<device::TestDevice> {
 protected:
  static OptimizerOptions Options() {
    return {.kind = Kind::kMuon,
            .momentum = kMomentum,
            .nesterov = true,
            .schedule = {.learning_rate = kLearningRate},
            .groups = {{.weight_decay = kDecay, .orthogonal = true}, {.weight_decay = 0}}};
  }
  Buffer New(const std::vector<float>& values) {
    Buffer buffer = *device_->Allocate(static_cast<int64_t>(4 * values.size()), Use::kParameters, "test");
    device_->CopyFromHost(*stream_, values.data(), buffer.array(DType::kFloat32));
    stream_->Synchronize();
    return buffer;
  }
  std::vector<float> Read(const Array& array) {
    std::vector<float> values(static_cast<size_t>(array.elements()));
    device_->CopyToHost(*stream_, array, values.data());
    stream_->Synchronize();
    return values;
  }
  Buffer Scalars(bool skip = false) {
    StepScalars s = NextScalars({}, 1, skip ? 1 : 0, MakeStepRule(Options(), 0.5, 0), std::nullopt);
    Buffer buffer = *device_->Allocate(sizeof(s), Use::kCommunication, "scalars");
    device_->CopyFromHost(*stream_, &s, buffer.array(DType::kUint8));
    stream_->Synchronize();
    return buffer;
  }

  std::unique_ptr<device::Device> device_ = GetParam().make();
  std::unique_ptr<device::Stream> stream_ = device_->MakeStream(device::StreamKind::kCompute);
};

TEST_P(MuonTest, FollowsThePaperOnWideTallAndSquareMatrices) {
  for (const MatrixShape shape : {MatrixShape{6, 20}, MatrixShape{20, 6}, MatrixShape{8, 8}, MatrixShape{1, 5}}) {
    const auto rows = static_cast<size_t>(shape.rows), columns = static_cast<size_t>(shape.columns), n = rows * columns;
    auto optimizer = Optimizer::Create(*device_, Options(), shape.rows * shape.columns, {Whole(shape)});
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    const std::vector<float> first = Normal(n, 1);
    const Buffer weights = New(first), scalars = Scalars();
    Matrix w(first.begin(), first.end()), momentum(n);
    for (unsigned step = 0; step < 3; ++step) {
      const std::vector<float> g = Normal(n, 10 + step);
      const Buffer gradients = New(g);
      ASSERT_TRUE((*optimizer)
                      ->Apply(*stream_, {.weights = weights.array(DType::kFloat32),
                                         .gradients = gradients.array(DType::kFloat32),
                                         .scalars = scalars.array(DType::kUint8)})
                      .ok());
      stream_->Synchronize();
      Matrix u(n);
      for (size_t i = 0; i < n; ++i) {
        momentum[i] = kMomentum * momentum[i] + 0.5 * static_cast<double>(g[i]);
        u[i] = 0.5 * static_cast<double>(g[i]) + kMomentum * momentum[i];
      }
      u = Orthogonalized(u, rows, columns);
      const double scale = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
      for (size_t i = 0; i < n; ++i) w[i] -= kLearningRate * (kDecay * w[i] + scale * u[i]);
    }
    const std::vector<float> ours = Read(weights.array(DType::kFloat32));
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(ours[i], w[i], 2e-5) << rows << " x " << columns << ", " << i;
  }
}

TEST_P(MuonTest, ASkippedStepWritesNothing) {
  auto optimizer = Optimizer::Create(*device_, Options(), 48, {Whole({6, 8})});
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  std::vector<float> g = Normal(48, 2);
  g[7] = std::nanf("");
  const Buffer weights = New(Normal(48, 1)), gradients = New(g), scalars = Scalars(/*skip=*/true);
  ASSERT_TRUE((*optimizer)
                  ->Apply(*stream_, {.weights = weights.array(DType::kFloat32),
                                     .gradients = gradients.array(DType::kFloat32),
                                     .scalars = scalars.array(DType::kUint8)})
                  .ok());
  EXPECT_EQ(Read(weights.array(DType::kFloat32)), Normal(48, 1));
  stream_->Synchronize();
  EXPECT_EQ(Read((*optimizer)->state()[0].array), std::vector<float>(48));
}

TEST_P(MuonTest, PartsOfMatricesAreRefused) {
  const auto parts = Optimizer::Create(*device_, Options(), 48, {{0, 40, 0}});
  EXPECT_THAT(std::string(parts.status().message()), HasSubstr("Muon needs whole matrices"));
  auto whole = Optimizer::Create(*device_, Options(), 48, {Whole({6, 8})});
  ASSERT_TRUE(whole.ok());
  const Buffer weights = New(Normal(24, 1)), scalars = Scalars();
  const absl::Status half = (*whole)->Apply(*stream_, {.weights = weights.array(DType::kFloat32),
                                                       .gradients = weights.array(DType::kFloat32),
                                                       .scalars = scalars.array(DType::kUint8)});
  EXPECT_THAT(std::string(half.message()), HasSubstr("Muon takes it as a whole"));
}

INSTANTIATE_TEST_SUITE_P(Devices, MuonTest, ::testing::ValuesIn(device::TestDevices()), device::NameOfTestDevice);

}  // namespace
}  // namespace zeroshard::optim
