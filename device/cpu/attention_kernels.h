// The softmax of causal attention on host memory, for one block of one head. The same bits at every vector width.
//
// Example:
//   CausalSoftmax({.rows = 64, .keys = 192, .scale = 0.125f, .scores = s, .log_sum_exp = l + 128});
#pragma once

#include <cstdint>

namespace zeroshard::device {

// Rows of queries against all keys up to their own: row r sees the first keys - rows + r + 1 keys.
struct CausalRows {
  int64_t rows;
  int64_t keys;
  float scale;
  float* scores;       // [rows, keys]: products of query and key; become probabilities, 0 where a row does not see
  float* log_sum_exp;  // [rows], of the scaled scores
};
void CausalSoftmax(const CausalRows& block);

// Rows of keys against all queries from the first of them on: query c sees row r if c >= r.
struct CausalColumns {
  int64_t rows;
  int64_t queries;
  float scale;
  float* scores;             // [rows, queries]: products of key and query; become probabilities
  float* d_probabilities;    // [rows, queries]: become the gradients of the products
  const float* log_sum_exp;  // [queries]
  const float* d_dot_out;    // [queries]: the inner product of d_out and out
};
void CausalSoftmaxBackward(const CausalColumns& block);

// dots[r] = the inner product of a[r] [width] and b's row r, whose rows start `b_stride` apart.
void InnerProducts(const float* a, const float* b, int64_t b_stride, int64_t rows, int64_t width, float* dots);

}  // namespace zeroshard::device
