#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {
namespace {

using TransformerKernelsOfCuda = KernelTest;

// Rows and widths that fill no block, no sixteen lanes and no four elements, and some that do.
struct Shape {
  int64_t rows, width;
};
constexpr Shape kShapes[] = {{1, 1}, {3, 7}, {16, 64}, {63, 65}, {64, 16}, {65, 48}, {130, 100}, {200, 3}};

std::vector<int32_t> Tokens(int64_t rows, int32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(rows));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
  return tokens;
}

TEST_P(TransformerKernelsOfCuda, TheLayerNormHasTheBitsOfTheCpu) {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  // Up to the widths whose rows stay in registers, and beyond.
  for (const int64_t width : {768, 770, 1280, 1283, 1600, 1604}) shapes.push_back({17, width});
  for (const DType dtype : kActivations) {
    for (const auto& [rows, width] : shapes) {
      SCOPED_TRACE(testing::Message() << Name(dtype).data() << " " << rows << " x " << width);
      KernelPair pair;
      const int64_t n = rows * width;
      const Both x = pair.Make(RandomFloats(n, 1, 3), DType::kFloat32), weight = pair.Make(RandomFloats(width, 2), dtype);
      const Both bias = pair.Make(RandomFloats(width, 3), dtype), normalized = pair.Make(n, dtype), y = pair.Make(n, dtype);
      const Both inverse = pair.Make(rows, DType::kFloat32);
      pair.Run([&](const Side& s) {
        s.transformer.LayerNorm(s.stream, s(x), s(weight), s(bias), s(normalized), s(inverse), s(y));
      });
      for (const Both& result : {normalized, inverse, y}) pair.ExpectSame(result);
    }
  }
}

void CheckLayerNormBackward(DType dtype, DType d_y_dtype, Shape shape, WriteMode mode, bool for_products) {
  SCOPED_TRACE(testing::Message() << Name(dtype).data() << " " << shape.rows << " x " << shape.width);
  KernelPair pair;
  const int64_t width = shape.width, n = shape.rows * width, partial = PartialRows(shape.rows) * width;
  const Both d_y = pair.Make(RandomFloats(n, 1), d_y_dtype), normalized = pair.Make(RandomFloats(n, 2), dtype);
  const Both inverse = pair.Make(RandomFloats(shape.rows, 3), DType::kFloat32),
             weight = pair.Make(RandomFloats(width, 4), dtype);
  const Both d_x = pair.Make(RandomFloats(n, 5), DType::kFloat32), bias = pair.Make(RandomFloats(width, 6), dtype);
  const Both rounded = pair.Make(for_products ? n : 0, dtype), y = pair.Make(for_products ? n : 0, dtype);
  const Both sums[] = {pair.Make(partial, DType::kFloat32), pair.Make(partial, DType::kFloat32),
                       pair.Make(partial, DType::kFloat32)};
  pair.Run([&](const Side& s) {
    s.transformer.LayerNormBackward(s.stream, s(d_y), s(normalized), s(inverse), s(weight), s(d_x), mode,
                                    {.weight = s(sums[0]), .bias = s(sums[1]), .d_x = s(sums[2])},
                                    {.rounded = s(rounded), .y = s(y), .bias = s(bias)});
  });
  for (const Both& result : {d_x, rounded, y, sums[0], sums[1], sums[2]}) pair.ExpectSame(result);
}

TEST_P(TransformerKernelsOfCuda, TheLayerNormsGradientHasTheBitsOfTheCpu) {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  // Up to the widths that a block holds, and beyond.
  for (const int64_t width : {768, 1024, 1028, 2048, 2052}) shapes.push_back({67, width});
  for (const DType dtype : kActivations) {
    for (const Shape& shape : shapes) {
      CheckLayerNormBackward(dtype, dtype, shape, WriteMode::kAccumulate, /*for_products=*/true);
      CheckLayerNormBackward(dtype, DType::kFloat32, shape, WriteMode::kOverwrite, /*for_products=*/false);
    }
  }
}

TEST_P(TransformerKernelsOfCuda, GeluHasTheBitsOfTheCpu) {
  for (const DType dtype : kActivations) {
    for (const auto& [rows, width] : kShapes) {
      SCOPED_TRACE(testing::Message() << Name(dtype).data() << " " << rows << " x " << width);
      KernelPair pair;
      const int64_t n = rows * width;
      const Both x = pair.Make(RandomFloats(n, 1, 4), dtype), y = pair.Make(n, dtype),
                 d = pair.Make(RandomFloats(n, 2), dtype);
      const Both partials = pair.Make(PartialRows(rows) * width, DType::kFloat32);
      pair.Run([&, width = width](const Side& s) {
        s.transformer.Gelu(s.stream, s(x), s(y));
        s.transformer.GeluBackward(s.stream, s(x), s(d), s(partials), width);
      });
      for (const Both& result : {y, x, d, partials}) pair.ExpectSame(result);
    }
  }
}

TEST_P(TransformerKernelsOfCuda, GeluOfLargeValuesHasTheBitsOfTheCpu) {
  KernelPair pair;
  const Both x = pair.Make({-1e30f, -90, -13.2f, -0.0f, 0, 1e-30f, 13.2f, 90, 1e30f}, DType::kFloat32);
  const Both y = pair.Make(9, DType::kFloat32);
  pair.Run([&](const Side& s) { s.transformer.Gelu(s.stream, s(x), s(y)); });
  pair.ExpectSame(y);
}

TEST_P(TransformerKernelsOfCuda, SumsOfRowsHaveTheBitsOfTheCpu) {
  for (const DType x_dtype : kActivations) {
    for (const DType sum_dtype : kActivations) {
      for (const auto& [rows, width] : {Shape{0, 5}, {1, 1}, {3, 17}, {127, 33}, {128, 16}, {261, 40}}) {
        for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
          SCOPED_TRACE(testing::Message() << Name(x_dtype).data() << " " << rows << " x " << width);
          KernelPair pair;
          const Both x = pair.Make(RandomFloats(rows * width, 1), x_dtype),
                     sum = pair.Make(RandomFloats(width, 2), sum_dtype);
          pair.Run([&](const Side& s) { s.transformer.SumRows(s.stream, s(x), s(sum), mode); });
          pair.ExpectSame(sum);
        }
      }
    }
  }
}

TEST_P(TransformerKernelsOfCuda, SeveralSumsOfRowsAtATimeHaveTheBitsOfTheCpu) {
  constexpr Shape kUnlike[kMostRowSums] = {{70, 33}, {3, 16}, {0, 5}};
  for (int count = 1; count <= kMostRowSums; ++count) {
    KernelPair pair;
    std::vector<Both> x, sums;
    for (int i = 0; i < count; ++i) {
      const auto seed = static_cast<uint32_t>(i);
      x.push_back(pair.Make(RandomFloats(kUnlike[i].rows * kUnlike[i].width, seed), DType::kFloat32));
      sums.push_back(pair.Make(RandomFloats(kUnlike[i].width, seed + 9), DType::kBfloat16));
    }
    pair.Run([&](const Side& s) {
      std::vector<RowSum> all;
      for (size_t i = 0; i < x.size(); ++i) {
        all.push_back({s(x[i]), s(sums[i]), i == 1 ? WriteMode::kOverwrite : WriteMode::kAccumulate});
      }
      s.transformer.SumRows(s.stream, all);
    });
    for (const Both& sum : sums) pair.ExpectSame(sum);
  }
}

TEST_P(TransformerKernelsOfCuda, TheEmbeddingHasTheBitsOfTheCpu) {
  for (const DType dtype : kActivations) {
    for (const auto& [rows, width] : kShapes) {
      for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
        SCOPED_TRACE(testing::Message() << Name(dtype).data() << " " << rows << " x " << width);
        KernelPair pair;
        constexpr int32_t kVocab = 11;
        const int64_t batch = rows % 2 == 0 ? 2 : 1, context = rows / batch;
        const Both tokens = pair.MakeOf(Tokens(rows, kVocab, 1)), table = pair.Make(RandomFloats(kVocab * width, 2), dtype);
        const Both positions = pair.Make(RandomFloats(context * width, 3), dtype),
                   x = pair.Make(rows * width, DType::kFloat32);
        const Both d_x = pair.Make(RandomFloats(rows * width, 4), DType::kFloat32);
        pair.Run([&](const Side& s) {
          s.transformer.Embed(s.stream, s(tokens), s(table), s(positions), s(x));
          s.transformer.EmbedTokensBackward(s.stream, s(tokens), s(d_x), s(table), mode);
          s.transformer.EmbedPositionsBackward(s.stream, s(d_x), s(positions), mode);
        });
        for (const Both& result : {x, table, positions}) pair.ExpectSame(result);
      }
    }
  }
}

// A class of tokens with more rows than its block lists, and chunks of rows beside each other; `often`: as many rows again are of these,
// which at 10000 rows are of one class.
TEST_P(TransformerKernelsOfCuda, TokensOfManyRowsHaveTheBitsOfTheCpu) {
  struct Case {
    int32_t vocab;
    std::vector<int32_t> often;
  };
  for (const auto& [vocab, often] : {Case{2, {}}, Case{500, {}}, Case{1000, {7, 7 + 156}}}) {
    KernelPair pair;
    const int64_t width = 5;
    std::vector<int32_t> of_rows = Tokens(5000, vocab, 5);
    for (size_t i = 0; !often.empty() && i < 5000; ++i) of_rows.insert(of_rows.begin() + 2 * i, often[i * i % 3 % 2]);
    const auto rows = static_cast<int64_t>(of_rows.size());
    const Both tokens = pair.MakeOf(of_rows), d_x = pair.Make(RandomFloats(rows * width, 6), DType::kFloat32);
    const Both d_table = pair.Make(RandomFloats(vocab * width, 7), DType::kBfloat16);
    pair.Run([&](const Side& s) {
      s.transformer.EmbedTokensBackward(s.stream, s(tokens), s(d_x), s(d_table), WriteMode::kAccumulate);
    });
    pair.ExpectSame(d_table);
  }
}

void CheckLoss(DType dtype, int64_t rows, const std::vector<int64_t>& counts, bool scales, int64_t stride_of = 1) {
  SCOPED_TRACE(testing::Message() << Name(dtype).data() << " " << rows << " rows");
  KernelPair pair;
  int64_t vocab = 0;
  for (const int64_t count : counts) vocab += count;
  const auto stride = [&](size_t i) { return (counts[i] + stride_of - 1) / stride_of * stride_of; };
  std::vector<int32_t> targets = Tokens(rows, static_cast<int32_t>(vocab), 1);
  targets[0] = -1;
  const Both at = pair.MakeOf(targets), maximum = pair.Make(rows, DType::kFloat32), sum = pair.Make(rows, DType::kFloat64);
  // Rows without a target keep what was there.
  const Both logit = pair.Make(RandomFloats(rows, 2), DType::kFloat32), loss = pair.Make(1, DType::kFloat64);
  const Both loss_scale = pair.Make(scales ? std::vector<float>{3} : std::vector<float>{}, DType::kFloat32);
  std::vector<Both> logits, exponentials, maxima;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t elements = rows * stride(i);
    logits.push_back(pair.Make(RandomFloats(elements, static_cast<uint32_t>(i + 3), 3), DType::kFloat32));
    // In fp32 they take the logits' place.
    exponentials.push_back(dtype == DType::kFloat32 ? logits.back() : pair.Make(elements, dtype));
    maxima.push_back(pair.Make(rows, DType::kFloat32));
  }
  pair.Run([&](const Side& s) {
    const LossRows of{.targets = s(at), .maximum = s(maximum), .sum = s(sum), .target_logit = s(logit)};
    int64_t first = 0;
    for (size_t i = 0; i < counts.size(); first += counts[i], ++i) {
      s.transformer.LossExponentials(s.stream, {first, counts[i], stride(i)}, of, s(logits[i]), s(exponentials[i]),
                                     s(maxima[i]));
    }
    first = 0;
    for (size_t i = 0; i < counts.size(); first += counts[i], ++i) {
      s.transformer.LossGradient(s.stream, {first, counts[i], stride(i)}, of, s(maxima[i]), 0.01f, s(exponentials[i]),
                                 s(loss_scale));
    }
    s.transformer.LossSum(s.stream, of, s(loss));
  });
  for (const Both& result : {maximum, logit}) pair.ExpectSame(result);
  pair.ExpectSameUpToLibrary(sum, 1e-15);
  pair.ExpectSameUpToLibrary(loss, 1e-14);
  // One ulp of a rounded gradient, where fp64 fell on the other side.
  for (const Both& gradient : exponentials) pair.ExpectSameUpToLibrary(gradient, dtype == DType::kFloat32 ? 2e-7 : 8e-3);
}

TEST_P(TransformerKernelsOfCuda, TheLossHasTheBitsOfTheCpu) {
  for (const DType dtype : kActivations) {
    CheckLoss(dtype, 1, {1}, /*scales=*/false);
    CheckLoss(dtype, 17, {64, 64, 13}, /*scales=*/true);
    CheckLoss(dtype, 64, {33, 5}, /*scales=*/false);
    CheckLoss(dtype, 600, {48}, /*scales=*/true);
    CheckLoss(dtype, 2500, {3}, /*scales=*/false, /*stride_of=*/4);
    // Rows that are held, as a whole and in part; one that is too long for that.
    CheckLoss(dtype, 5, {64, 1030, 7}, /*scales=*/true, /*stride_of=*/4);
    CheckLoss(dtype, 3, {8192, 2049}, /*scales=*/false, /*stride_of=*/128);
    CheckLoss(dtype, 2, {8196}, /*scales=*/false, /*stride_of=*/4);
  }
}

TEST_P(TransformerKernelsOfCuda, TheLossOfNoRowsIsZero) {
  KernelPair pair;
  const Both loss = pair.Make(1, DType::kFloat64), targets = pair.MakeOf(std::vector<int32_t>{});
  pair.Run([&](const Side& s) {
    LossRows rows;
    rows.targets = s(targets);
    s.transformer.LossSum(s.stream, rows, s(loss));
  });
  pair.ExpectSame(loss);
}

INSTANTIATE_TEST_SUITE_P(Orders, TransformerKernelsOfCuda, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
