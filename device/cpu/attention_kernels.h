// The softmax of causal attention on host memory, for one block of one head. The same bits at every vector width.
//
// Products of query and key come in fp32; what is multiplied again leaves in `dtype` (fp32, bf16 or fp16), in fp32 perhaps in
// the same place.
//
// Example:
//   CausalSoftmax({.rows = 64, .keys = 192, .scale = 0.125f, .scores = s, .probabilities = s, .log_sum_exp = l + 128});
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

// Rows of queries against all keys up to their own: row r sees the first keys - rows + r + 1 keys.
struct CausalRows {
  int64_t rows;
  int64_t keys;
  float scale;
  float* scores;  // [rows, keys]: products of query and key; overwritten
  DType dtype = DType::kFloat32;
  void* probabilities;  // [rows, keys]: 0 where a row does not see
  float* log_sum_exp;   // [rows], of the scaled scores
};
void CausalSoftmax(const CausalRows& block);

// Rows of keys against all queries from the first of them on: query c sees row r if c >= r.
struct CausalColumns {
  int64_t rows;
  int64_t queries;
  float scale;
  const float* scores;           // [rows, queries]: products of key and query
  const float* d_probabilities;  // [rows, queries]
  DType dtype = DType::kFloat32;
  void* probabilities;       // [rows, queries]
  void* d_scores;            // [rows, queries]: the gradients of the products
  const float* log_sum_exp;  // [queries]
  const float* d_dot_out;    // [queries]: the inner product of d_out and out
};
void CausalSoftmaxBackward(const CausalColumns& block);

// dots[r] = the inner product of row r of a and of b, of [width] of `dtype` each; rows start `stride` elements apart.
void InnerProducts(DType dtype, const void* a, const void* b, int64_t stride, int64_t rows, int64_t width, float* dots);

}  // namespace zeroshard::device
