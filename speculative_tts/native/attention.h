// Attention of a few queries to the keys and values of one head.
#pragma once

#include <algorithm>

#include "vectors.h"

namespace {

constexpr int QUERIES = REGISTERS == 32 ? 8 : 4;  // that share what is read of keys and values
constexpr int WIDEST_HEAD = 512;
constexpr int SLACK = 4 * LANES;                  // that reading by vectors may go beyond an end

struct Query {
  const float* vector;  // [head_dim]
  float* out;           // [head_dim]
  long length;          // positions it sees
};

struct Head {  // keys and values of one kv head
  const float *keys, *values;
  long capacity, dim, stride;  // stride: of a position's values
};

// Asks early for what is read next, the keys behind these and the values here: rows of keys lie far
// apart.
template <int N, int V>
void scores_at(const Query* queries, const Head& head, long position, float* scores, long stride) {
  Vec sum[N][V] = {};
  for (long d = 0; d < head.dim; d++) {
    const float* row = head.keys + d * head.capacity + position;
    const float* values = head.values + position * head.stride + d * V * LANES;
    for (int v = 0; v < V; v++) {
      Vec key = load(row + v * LANES);
      if (v * LANES % 16 == 0) {  // once a line of a cache
        __builtin_prefetch(row + (V + v) * LANES);
        __builtin_prefetch(values + v * LANES, 0, 2);
      }
      for (int n = 0; n < N; n++) sum[n][v] = fma(all(queries[n].vector[d]), key, sum[n][v]);
    }
  }
  for (int n = 0; n < N; n++)
    for (int v = 0; v < V; v++) store(scores + n * stride + position + v * LANES, sum[n][v]);
}

template <int N, int V>
void mixed_at(const float* weights, long stride, const Head& head, long column, long span,
              float (*out)[WIDEST_HEAD]) {
  Vec sum[N][V] = {};
  for (long p = 0; p < span; p++) {
    const float* row = head.values + p * head.stride + column;
    for (int v = 0; v < V; v++) {
      Vec value = load(row + v * LANES);
      for (int n = 0; n < N; n++) sum[n][v] = fma(all(weights[n * stride + p]), value, sum[n][v]);
    }
  }
  for (int n = 0; n < N; n++)
    for (int v = 0; v < V; v++) store(out[n] + column + v * LANES, sum[n][v]);
}

// exp(score - largest) in place, exactly 0 behind `length`; returns the sum.
float exponentials(float* scores, long length) {
  const long whole = padded(length, BLOCK);
  std::fill(scores + length, scores + whole, scores[0]);
  Vec most = load(scores);
  for (long p = LANES; p < whole; p += LANES) {
    Vec v = load(scores + p);
    most = v > most ? v : most;
  }
  float largest = most[0];
  for (int i = 1; i < LANES; i++) largest = std::max(largest, most[i]);
  for (long p = 0; p < whole; p += LANES)
    store(scores + p, exponential(load(scores + p) - all(largest)));
  std::fill(scores + length, scores + whole, 0.f);
  Sum sum;
  for (long p = 0; p < whole; p += BLOCK)
    for (int j = 0; j < PARTS; j++) sum.part[j] += load(scores + p + j * LANES);
  return sum.total();
}

template <int N>
void attend(const Query* queries, const Head& head, float* scores, long stride) {
  constexpr int V = 2 * N <= QUERIES ? 4 : 2;
  const long span = queries[N - 1].length;
  long position = 0;
  for (; position + LANES < span; position += V * LANES)
    scores_at<N, V>(queries, head, position, scores, stride);
  if (position < span) scores_at<N, 1>(queries, head, position, scores, stride);
  float sums[N], out[N][WIDEST_HEAD];
  for (int n = 0; n < N; n++) {
    sums[n] = exponentials(scores + n * stride, queries[n].length);
    for (long p = queries[n].length; p < span; p++) scores[n * stride + p] = 0;
  }
  long column = 0;
  for (; column + V * LANES <= head.stride; column += V * LANES)
    mixed_at<N, V>(scores, stride, head, column, span, out);
  for (; column + 2 * LANES <= head.stride; column += 2 * LANES)
    mixed_at<N, 2>(scores, stride, head, column, span, out);
  for (; column < head.stride; column += LANES)
    mixed_at<N, 1>(scores, stride, head, column, span, out);
  for (int n = 0; n < N; n++)
    for (long d = 0; d < head.dim; d++) queries[n].out[d] = out[n][d] / sums[n];
}

template <int N = QUERIES>
void attend(int number, const Query* queries, const Head& head, float* scores, long stride) {
  if constexpr (N > 1)
    if (number < N) return attend<N - 1>(number, queries, head, scores, stride);
  attend<N>(queries, head, scores, stride);
}

}  // namespace
