#include "zeroshard/device/cuda/attention_kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "zeroshard/device/cuda/attention_tiles.h"
#include "zeroshard/device/cuda/exponential.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// A block takes a tile of queries and goes over the tiles of keys that it sees; each row keeps its maximum and sum so far (Dao et al.,
// "FlashAttention", algorithm 1).
template <class T, unsigned kRows>
ZS_DEVICE void ForwardKernel(Block& b, AttentionSpec spec, float scale, int64_t tiles, In<T> qkv, Out<T> out,
                             Out<float> log_sum_exp) {
  using Tiles = AttentionTiles<kRows>;
  const auto [place, tile] = BlockOf(spec, b.index(), tiles);
  const int64_t first = tile * kRows;
  const auto part = [&place = place](int which) { return [&place, which](int64_t at) { return place.InQkv(at, which); }; };
  ZS_SHARED(float, queries, Tiles::kElements);
  ZS_SHARED(float, others, Tiles::kElements);  // keys, then values
  ZS_SHARED(float, weights, Tiles::kScoreElements);
  struct Scores {
    float v[Tiles::kScores];
  };
  PerThread<Scores> scores;
  PerThread<RowNumbers> sums;
  PerThread<float> maximum, total, greatest, added;
  b.ForEachThread([&](unsigned t) {
    Tiles::Load(t, place, qkv, first, queries, part(0));
    maximum[t] = -std::numeric_limits<float>::infinity();
    total[t] = 0;
    sums[t] = {};
  });
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * kRows;
    const auto sees = [&, first = first](unsigned t, int j) {
      const int64_t query = first + Tiles::Row(t), key = first_key + Tiles::Column(t, j);
      return Tiles::Column(t, j) < kRows && key <= query && query < spec.context;
    };
    b.ForEachThread([&](unsigned t) { Tiles::Load(t, place, qkv, first_key, others, part(1)); });
    b.ForEachThread([&](unsigned t) {
      Tiles::Products(t, spec.head_width, Tiles::Row(t), queries, others, scores[t].v);
      float most = -std::numeric_limits<float>::infinity();
      for (int j = 0; j < Tiles::kScores; ++j) {
        scores[t].v[j] *= scale;
        if (sees(t, j)) most = Greater()(most, scores[t].v[j]);
      }
      greatest[t] = most;
    });
    b.template FoldGroups<Tiles::kGroup>(greatest, Greater());
    b.ForEachThread([&](unsigned t) {
      const float now = Greater()(maximum[t], greatest[t]), shrink = Exponential(maximum[t] - now);
      float own = 0;
      for (int j = 0; j < Tiles::kScores; ++j) {
        if (Tiles::Column(t, j) >= kRows) continue;
        const float weight = sees(t, j) ? Exponential(scores[t].v[j] - now) : 0.0f;
        weights[Tiles::Row(t) * Tiles::kScoreStride + Tiles::Column(t, j)] = weight;
        own += weight;
      }
      added[t] = own;
      if (key_tile > 0) {
        total[t] *= shrink;
        for (float& sum : sums[t].v) sum *= shrink;
      }
      maximum[t] = now;
    });
    b.template FoldGroups<Tiles::kGroup>(added, Plus());
    b.ForEachThread([&](unsigned t) {
      total[t] += added[t];
      Tiles::Load(t, place, qkv, first_key, others, part(2));
    });
    b.ForEachThread([&](unsigned t) { Tiles::AddWeighted(t, spec.head_width, weights, others, sums[t].v); });
  }
  b.ForEachThread([&](unsigned t) {
    Tiles::Write(t, place, first, sums[t].v, 1.0f / total[t], out, [&](int64_t at) { return place.InRows(at); });
    const int64_t position = first + Tiles::Row(t);
    if (t % Tiles::kGroup != 0 || position >= spec.context) return;
    log_sum_exp[static_cast<size_t>(place.InSums(position))] = maximum[t] + logf(total[t]);
  });
}

// dots [batch, heads, context] = d_out times out, for each position of each head.
template <class T>
ZS_DEVICE void DotsKernel(Block& b, AttentionSpec spec, In<T> out, In<T> d_out, Out<float> dots) {
  const auto rows = spec.batch * spec.heads * spec.context;
  PerThread<float> sum;
  b.ForEachThread([&](unsigned t) { sum[t] = 0; });
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    const HeadPlace place = BlockOf(spec, row, spec.context).place;
    const int64_t at = place.InRows(row % spec.context);
    for (int64_t i = Lane(t); i < spec.head_width; i += kLanesOfRow) {
      sum[t] =
          fmaf(WidenUniformly(d_out[static_cast<size_t>(at + i)]), WidenUniformly(out[static_cast<size_t>(at + i)]), sum[t]);
    }
  });
  b.FoldGroups<kLanesOfRow>(sum, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    if (Lane(t) == 0) dots[static_cast<size_t>(row)] = sum[t];
  });
}

// The probability of a score and its gradient, from what forward kept of the query's softmax.
struct Weight {
  float probability, d_score;
};
ZS_DEVICE Weight WeightOf(float product, float d_product, float scale, float log_sum_exp, float dot) {
  const float probability = Exponential(fmaf(product, scale, -log_sum_exp));
  return {probability, probability * scale * (d_product - dot)};
}

// The gradients of a tile of keys and values, over the queries that see them.
template <class T, unsigned kRows>
ZS_DEVICE void KeysKernel(Block& b, AttentionSpec spec, float scale, int64_t tiles, In<T> qkv, In<float> log_sum_exp,
                          In<T> d_out, In<float> dots, Out<T> d_qkv) {
  using Tiles = AttentionTiles<kRows>;
  const auto [place, tile] = BlockOf(spec, b.index(), tiles);
  const int64_t first = tile * kRows;
  const auto part = [&place = place](int which) { return [&place, which](int64_t at) { return place.InQkv(at, which); }; };
  const auto in_rows = [&place = place](int64_t at) { return place.InRows(at); };
  ZS_SHARED(float, keys, Tiles::kElements);
  ZS_SHARED(float, values, Tiles::kElements);
  ZS_SHARED(float, queries, Tiles::kElements);
  ZS_SHARED(float, d_outs, Tiles::kElements);
  ZS_SHARED(float, probabilities, Tiles::kScoreElements);
  ZS_SHARED(float, d_scores, Tiles::kScoreElements);
  PerThread<RowNumbers> d_keys, d_values;
  b.ForEachThread([&](unsigned t) {
    Tiles::Load(t, place, qkv, first, keys, part(1));
    Tiles::Load(t, place, qkv, first, values, part(2));
    d_keys[t] = {};
    d_values[t] = {};
  });
  for (int64_t query_tile = tile; query_tile < tiles; ++query_tile) {
    const int64_t first_query = query_tile * kRows;
    b.ForEachThread([&](unsigned t) {
      Tiles::Load(t, place, qkv, first_query, queries, part(0));
      Tiles::Load(t, place, d_out, first_query, d_outs, in_rows);
    });
    b.ForEachThread([&](unsigned t) {
      float products[Tiles::kScores], d_products[Tiles::kScores];
      Tiles::Products(t, spec.head_width, Tiles::Row(t), keys, queries, products);
      Tiles::Products(t, spec.head_width, Tiles::Row(t), values, d_outs, d_products);
      ZS_UNROLL
      for (int j = 0; j < Tiles::kScores; ++j) {
        if (Tiles::Column(t, j) >= kRows) continue;
        const int64_t query = first_query + Tiles::Column(t, j), key = first + Tiles::Row(t);
        Weight weight = {0, 0};
        if (key <= query && query < spec.context) {
          const auto at = static_cast<size_t>(place.InSums(query));
          weight = WeightOf(products[j], d_products[j], scale, log_sum_exp[at], dots[at]);
        }
        probabilities[Tiles::Row(t) * Tiles::kScoreStride + Tiles::Column(t, j)] = weight.probability;
        d_scores[Tiles::Row(t) * Tiles::kScoreStride + Tiles::Column(t, j)] = weight.d_score;
      }
    });
    b.ForEachThread([&](unsigned t) {
      Tiles::AddWeighted(t, spec.head_width, probabilities, d_outs, d_values[t].v);
      Tiles::AddWeighted(t, spec.head_width, d_scores, queries, d_keys[t].v);
    });
  }
  b.ForEachThread([&](unsigned t) {
    Tiles::Write(t, place, first, d_keys[t].v, 1.0f, d_qkv, part(1));
    Tiles::Write(t, place, first, d_values[t].v, 1.0f, d_qkv, part(2));
  });
}

// The gradients of a tile of queries, over the keys that it sees.
template <class T, unsigned kRows>
ZS_DEVICE void QueriesKernel(Block& b, AttentionSpec spec, float scale, int64_t tiles, In<T> qkv, In<float> log_sum_exp,
                             In<T> d_out, In<float> dots, Out<T> d_qkv) {
  using Tiles = AttentionTiles<kRows>;
  const auto [place, tile] = BlockOf(spec, b.index(), tiles);
  const int64_t first = tile * kRows;
  const auto part = [&place = place](int which) { return [&place, which](int64_t at) { return place.InQkv(at, which); }; };
  ZS_SHARED(float, queries, Tiles::kElements);
  ZS_SHARED(float, d_outs, Tiles::kElements);
  ZS_SHARED(float, keys, Tiles::kElements);
  ZS_SHARED(float, values, Tiles::kElements);
  ZS_SHARED(float, d_scores, Tiles::kScoreElements);
  PerThread<RowNumbers> d_queries;
  b.ForEachThread([&](unsigned t) {
    Tiles::Load(t, place, qkv, first, queries, part(0));
    Tiles::Load(t, place, d_out, first, d_outs, [&](int64_t at) { return place.InRows(at); });
    d_queries[t] = {};
  });
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * kRows;
    b.ForEachThread([&](unsigned t) {
      Tiles::Load(t, place, qkv, first_key, keys, part(1));
      Tiles::Load(t, place, qkv, first_key, values, part(2));
    });
    b.ForEachThread([&](unsigned t) {
      float products[Tiles::kScores], d_products[Tiles::kScores];
      Tiles::Products(t, spec.head_width, Tiles::Row(t), queries, keys, products);
      Tiles::Products(t, spec.head_width, Tiles::Row(t), d_outs, values, d_products);
      const int64_t query = first + Tiles::Row(t);
      ZS_UNROLL
      for (int j = 0; j < Tiles::kScores; ++j) {
        if (Tiles::Column(t, j) >= kRows) continue;
        float d_score = 0;
        if (first_key + Tiles::Column(t, j) <= query && query < spec.context) {
          const auto at = static_cast<size_t>(place.InSums(query));
          d_score = WeightOf(products[j], d_products[j], scale, log_sum_exp[at], dots[at]).d_score;
        }
        d_scores[Tiles::Row(t) * Tiles::kScoreStride + Tiles::Column(t, j)] = d_score;
      }
    });
    b.ForEachThread([&](unsigned t) { Tiles::AddWeighted(t, spec.head_width, d_scores, keys, d_queries[t].v); });
  }
  b.ForEachThread([&](unsigned t) { Tiles::Write(t, place, first, d_queries[t].v, 1.0f, d_qkv, part(0)); });
}

float ScaleOf(const AttentionSpec& spec) { return 1.0f / std::sqrt(static_cast<float>(spec.head_width)); }

Grid GridOf(const AttentionSpec& spec, int64_t tiles) {
  return {static_cast<unsigned>(spec.batch * spec.heads * tiles), kAttentionThreads};
}

template <class T, unsigned kRows>
cudaError_t Forward(cudaStream_t stream, const AttentionSpec& spec, const Array& qkv, const Array& out,
                    const Array& log_sum_exp) {
  const int64_t tiles = AttentionTiles<kRows>::Count(spec.context);
  return LaunchBlocks<ForwardKernel<T, kRows>>(stream, GridOf(spec, tiles), spec, ScaleOf(spec), tiles, Reads<T>(qkv),
                                               Writes<T>(out), Writes<float>(log_sum_exp));
}

template <class T, unsigned kRows>
cudaError_t Backward(cudaStream_t stream, const AttentionSpec& spec, const AttentionGradient& a) {
  const int64_t sums = spec.batch * spec.heads * spec.context, tiles = AttentionTiles<kRows>::Count(spec.context);
  const Array dots = a.scratch.As(DType::kFloat32).Slice(0, sums);
  cudaError_t error =
      LaunchBlocks<DotsKernel<T>>(stream, GridForRows(sums), spec, Reads<T>(a.out), Reads<T>(a.d_out), Writes<float>(dots));
  if (error != cudaSuccess) return error;
  const auto launch = [&](auto kernel) {
    return kernel(stream, GridOf(spec, tiles), spec, ScaleOf(spec), tiles, Reads<T>(a.qkv), Reads<float>(a.log_sum_exp),
                  Reads<T>(a.d_out), Reads<float>(dots), Writes<T>(a.d_qkv));
  };
  error = launch([](auto... args) { return LaunchBlocks<KeysKernel<T, kRows>>(args...); });
  if (error != cudaSuccess) return error;
  return launch([](auto... args) { return LaunchBlocks<QueriesKernel<T, kRows>>(args...); });
}

// run.operator()<T, kRows>() for the head's width.
template <class T, class Run>
cudaError_t VisitWidths(const AttentionSpec& spec, const Run& run) {
  if (spec.head_width <= 64) return run.template operator()<T, 32>();
  if (spec.head_width <= 128) return run.template operator()<T, 16>();
  return spec.head_width <= kMostHeadWidth ? run.template operator()<T, 8>() : cudaErrorInvalidValue;
}

// The same for the spec's dtype.
template <class Run>
cudaError_t VisitTiles(const AttentionSpec& spec, const Run& run) {
  cudaError_t error = cudaErrorInvalidValue;
  VisitActivation(spec.dtype, [&]<class T>(TypeTag<T>) { error = VisitWidths<T>(spec, run); });
  return error;
}

}  // namespace

cudaError_t AttentionForward(cudaStream_t stream, const AttentionSpec& spec, const Array& qkv, const Array& out,
                             const Array& log_sum_exp) {
  return VisitTiles(spec, [&]<class T, unsigned kRows>() { return Forward<T, kRows>(stream, spec, qkv, out, log_sum_exp); });
}

cudaError_t AttentionBackward(cudaStream_t stream, const AttentionSpec& spec, const AttentionGradient& arrays) {
  return VisitTiles(spec, [&]<class T, unsigned kRows>() { return Backward<T, kRows>(stream, spec, arrays); });
}

}  // namespace zeroshard::device::cuda
