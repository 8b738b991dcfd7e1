// What is looked for in a row of logits: the likeliest ids, and exponentials with their sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "vectors.h"

namespace {

constexpr float NONE = -std::numeric_limits<float>::infinity();
constexpr float NO_LAW = std::numeric_limits<float>::quiet_NaN();
constexpr int FEW = 256;  // likeliest ids that are kept in order while looking; more are sorted

struct Best {  // the likeliest ids, the largest value first; of equal ones the lower id
  std::vector<float> value;
  std::vector<int32_t> id;
  int count = 0;

  void find(const float* x, long n, int k) {
    value.resize(std::max<size_t>(value.size(), k)), id.resize(value.size());
    count = 0;
    if (k > FEW) return sort(x, n, k);
    float least = below(x, n, k);
    bool bound = least > NONE;  // else what is impossible may be among them
    for (long begin = 0; begin < n; begin += LANES) {
      const long end = std::min(begin + LANES, n);
      if (bound && end - begin == LANES && !any(load(x + begin) > all(least))) continue;
      for (long i = begin; i < end; i++)
        if (!bound || x[i] > least) {
          insert(x[i], (int32_t)i, k);
          if (count == k) bound = true, least = value[k - 1];
        }
    }
  }

 private:
  // Less than all of them, if it is a number: k of the largest values of COLUMNS columns are above.
  static float below(const float* x, long n, int k) {
    constexpr int COLUMNS = 128;
    if (2 * k > COLUMNS || n < 4 * COLUMNS) return NONE;
    float most[COLUMNS];
    std::fill(most, most + COLUMNS, NONE);
    for (long i = 0; i + COLUMNS <= n; i += COLUMNS)
      for (int j = 0; j < COLUMNS; j += LANES) {
        const Vec v = load(x + i + j), before = load(most + j);
        store(most + j, v > before ? v : before);
      }
    std::nth_element(most, most + k - 1, most + COLUMNS, std::greater<float>());
    return most[k - 1] - 1e-6f * std::abs(most[k - 1]) - 1e-30f;
  }
  void insert(float v, int32_t i, int k) {
    int at = count < k ? count++ : k - 1;
    for (; at > 0 && value[at - 1] < v; at--) value[at] = value[at - 1], id[at] = id[at - 1];
    value[at] = v, id[at] = i;
  }
  void sort(const float* x, long n, int k) {
    std::vector<int32_t> order(n);
    for (long i = 0; i < n; i++) order[i] = (int32_t)i;
    auto before = [x](int32_t a, int32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
    if (k < n) std::nth_element(order.begin(), order.begin() + k, order.end(), before);
    std::sort(order.begin(), order.begin() + k, before);
    for (; count < k; count++) id[count] = order[count], value[count] = x[order[count]];
  }
};

// exp((x - largest) / temperature) in place, where x is at least `NONE`; returns the sum.
inline double exponentials(float* x, long n, float largest, float temperature) {
  double sum = 0;
  Sum part;
  const Vec top = all(largest / temperature), divisor = all(temperature);
  long i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    for (int j = 0; j < PARTS; j++) {
      float* at = x + i + j * LANES;
      Vec v = load(at) / divisor - top;
      Vec e = v < all(-87.f) ? all(0.f) : exponential(v);
      store(at, e);
      part.part[j] += e;
    }
    if (i % 1024 == 1024 - BLOCK) sum += part.total(), part = Sum();
  }
  for (; i < n; i++) sum += x[i] = std::exp(x[i] / temperature - largest / temperature);
  return sum + part.total();
}

// The id of the largest logit; -1 where there is no law.
inline long likeliest(const float* x, long n) {
  float largest = NONE;
  bool number = true;
  long i = 0;
  if (n >= LANES) {
    Vec most = load(x);
    Ints odd = {};
    for (; i + LANES <= n; i += LANES) {
      Vec v = load(x + i);
      odd |= v != v;
      most = v > most ? v : most;
    }
    for (int j = 0; j < LANES; j++) largest = std::max(largest, most[j]);
    number = !any(odd);
  }
  for (; i < n; i++) number &= x[i] == x[i], largest = std::max(largest, x[i]);
  if (!number || std::isinf(largest)) return -1;
  return std::find(x, x + n, largest) - x;
}

}  // namespace
