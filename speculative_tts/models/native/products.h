// Products of rows with packed weights: each sum along the inputs one by one, whatever the rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "native.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr int PAIR = 2 * LANES;  // columns of two vectors, which a tile has one or two of
static_assert(PANEL % PAIR == 0);
// A tile of so many rows asks for weights that far ahead; with fewer the processor's own prefetching
// is the faster one, but not where a tile reads half a panel.
constexpr int MANY = REGISTERS == 32 ? 5 : 3;
constexpr long AHEAD = 2048, LINE = 16;  // floats: 8 KB, and a line of a cache

// `TWO`: the most rows of which two pairs at a time are faster, `FROM` the fewest. One is a single
// stream to read, two keep more sums going at once; 16 registers hold half a panel otherwise.
struct Float32 {
  typedef float Input;
  static constexpr int FROM = 1, TWO = REGISTERS == 32 ? 0 : 2;
  static long steps(long inputs) { return inputs; }
  INLINE Vec dot(Vec weights, float x, Vec sum) { return fma(all(x), weights, sum); }
};
// Two inputs at a time, side by side in a word, the second in its upper half and added first, as
// AVX512-BF16 does. What is fed is rounded to bfloat16 too.
struct BFloat16 {
  static constexpr int FROM = REGISTERS == 32 ? 3 : 1, TWO = REGISTERS == 32 ? 6 : 2;
  static long steps(long inputs) { return (inputs + 1) / 2; }
#ifdef __AVX512BF16__
  typedef uint32_t Input;
  INLINE Input both(uint32_t first, uint32_t second) { return first >> 16 | second; }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)x), (__m512bh)weights);
  }
#else
  struct Input {
    float first, second;
  };
  INLINE Input both(uint32_t first, uint32_t second) { return {number(first), number(second)}; }
  INLINE Vec dot(Vec weights, const Input& x, Vec sum) {
    sum = fma(all(x.second), (Vec)((Words)weights & 0xffff0000u), sum);
    return fma(all(x.first), (Vec)((Words)weights << 16), sum);
  }
#endif
  static void read(const float* x, long n, Input* to) {
    for (long i = 0; i < n / 2; i++) to[i] = both(rounded(x[2 * i]), rounded(x[2 * i + 1]));
    if (n % 2) to[n / 2] = both(rounded(x[n - 1]), 0);
  }
  INLINE uint32_t rounded(float x) {  // to the nearest, of two the even one; NaN stays so
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    return (x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000) & 0xffff0000u;
  }
  INLINE float number(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }
};

struct Output {
  float* to;  // [rows, stride]
  long stride;
  const Linear& linear;
  bool add;
  void put(long row, long column, Vec v) const {
    float* p = to + row * stride + column;
    if (linear.bias) v += load(linear.bias + column);
    long left = linear.out - column;
    if (left >= LANES) return store(p, add ? v + load(p) : v);
    for (long i = 0; i < left; i++) p[i] = add ? v[i] + p[i] : v[i];
  }
};

// R rows of x [rows, stride] times P pairs of vectors, from pair number `first` on. Inlined, gcc
// reloads sums.
template <class W, int R, int P>
__attribute__((noinline)) void tile(const typename W::Input* x, long stride, long first, const Output& output, long row) {
  const long steps = W::steps(output.linear.in);
  const float* w[P];
  for (int p = 0; p < P; p++) {
    const long column = (first + p) * PAIR;
    w[p] = (const float*)output.linear.panels + column / PANEL * steps * PANEL + column % PANEL;
  }
  Vec low[R][P] = {}, high[R][P] = {};
  for (long k = 0; k < steps; k++) {
    for (int p = 0; p < P; p++) {
      const float* now = w[p] + k * PANEL;
      Vec a = load(now), b = load(now + LANES);
      for (long line = 0; R >= MANY && line < PAIR; line += LINE)
        __builtin_prefetch(now + AHEAD + line, 0, 2);
      if (R > 1) {
        KEEP(a);
        KEEP(b);
      }
      for (int r = 0; r < R; r++) {
        low[r][p] = W::dot(a, x[r * stride + k], low[r][p]);
        high[r][p] = W::dot(b, x[r * stride + k], high[r][p]);
      }
    }
  }
  for (int r = 0; r < R; r++)
    for (int p = 0; p < P; p++) {
      output.put(row + r, (first + p) * PAIR, low[r][p]);
      output.put(row + r, (first + p) * PAIR + LANES, high[r][p]);
    }
}

constexpr int MOST = REGISTERS == 32 ? 12 : 6;  // rows of a tile

template <class W, int R = MOST>
void tiles(int rows, int pairs, const typename W::Input* x, long stride, long first,
           const Output& output, long row) {
  if constexpr (R > 1)
    if (rows < R) return tiles<W, R - 1>(rows, pairs, x, stride, first, output, row);
  constexpr int BOTH = W::FROM <= R && R <= W::TWO ? 2 : 1;
  if (pairs == 2) return tile<W, R, BOTH>(x, stride, first, output, row);
  tile<W, R, 1>(x, stride, first, output, row);
}

template <class W>
void product(const Team& team, const typename W::Input* x, long stride, long rows,
             const Output& output) {
  auto [begin, end] = team.share(padded(output.linear.out) / PANEL);
  begin *= PANEL / PAIR, end *= PANEL / PAIR;
  const long blocks = (rows + MOST - 1) / MOST;
  for (long pair = begin; pair < end;) {
    int pairs = W::FROM <= rows && rows <= W::TWO && pair + 2 <= end ? 2 : 1;
    for (long block = 0; block < blocks; block++) {
      long row = rows * block / blocks, behind = rows * (block + 1) / blocks;
      tiles<W>((int)(behind - row), pairs, x + row * stride, stride, pair, output, row);
    }
    pair += pairs;
  }
}

// x [rows, stride] @ weight + bias, into or added to out.
void product(const Team& team, const Linear& linear, const float* x, long stride, long rows,
             float* out, long out_stride, bool add = false) {
  const Output output{out, out_stride, linear, add};
  if (!linear.bfloat16) return product<Float32>(team, x, stride, rows, output);
  thread_local std::vector<BFloat16::Input> inputs;
  const long steps = BFloat16::steps(linear.in);
  inputs.resize(std::max<size_t>(inputs.size(), rows * steps));
  for (long r = 0; r < rows; r++)
    BFloat16::read(x + r * stride, linear.in, &inputs[r * steps]);
  product<BFloat16>(team, inputs.data(), steps, rows, output);
}

}  // namespace
