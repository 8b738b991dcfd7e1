// Products of rows with packed weights: each sum along the inputs one by one, whatever the rows.
#pragma once

#include "native.h"
#include "threads.h"
#include "vectors.h"

namespace {

// Of a panel's 32 columns, `LANES` and those 16 further on are read as a pair of vectors.
constexpr int PAIRS = BLOCK / LANES;  // of a panel

// `TWO`: the most rows of which two pairs at a time are faster, `FROM` the fewest. One is a single
// stream to read, two keep more sums going at once; 16 registers hold half a panel otherwise.
struct Float32 {
  typedef float Word;
  static constexpr int ROW = PANEL, FROM = 1, TWO = REGISTERS == 32 ? 0 : 2;
  INLINE void pair(const float* p, Vec& low, Vec& high) { low = load(p), high = load(p + BLOCK); }
};
struct BFloat16 {  // two numbers a word: each is the upper half of a float32
  typedef uint32_t Word;
  static constexpr int ROW = BLOCK, FROM = REGISTERS == 32 ? 3 : 1, TWO = REGISTERS == 32 ? 6 : 2;
  INLINE void pair(const uint32_t* p, Vec& low, Vec& high) {
    Words both = *(const Words*)p;
    low = (Vec)(both << 16), high = (Vec)(both & 0xffff0000u);
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

// R rows of x times P pairs of columns, from pair number `first` on.
template <class W, int R, int P>
void tile(const float* x, long stride, long first, const Output& output, long row) {
  const long in = output.linear.in;
  const typename W::Word* w[P];
  for (int p = 0; p < P; p++)
    w[p] = (const typename W::Word*)output.linear.panels +
           (first + p) / PAIRS * in * W::ROW + (first + p) % PAIRS * LANES;
  Vec low[R][P] = {}, high[R][P] = {};
  for (long k = 0; k < in; k++) {
    for (int p = 0; p < P; p++) {
      Vec a, b;
      W::pair(w[p] + k * W::ROW, a, b);
      if (R > 1) {
        KEEP(a);
        KEEP(b);
      }
      for (int r = 0; r < R; r++) {
        Vec factor = all(x[r * stride + k]);
        low[r][p] = fma(factor, a, low[r][p]);
        high[r][p] = fma(factor, b, high[r][p]);
      }
    }
  }
  for (int r = 0; r < R; r++)
    for (int p = 0; p < P; p++) {
      long column = (first + p) / PAIRS * PANEL + (first + p) % PAIRS * LANES;
      output.put(row + r, column, low[r][p]);
      output.put(row + r, column + BLOCK, high[r][p]);
    }
}

typedef void (*Tile)(const float*, long, long, const Output&, long);
constexpr int MOST = REGISTERS == 32 ? 12 : 6;  // rows of a tile

template <class W, int R = MOST>
Tile tile_of(int rows, int pairs) {
  if constexpr (R > 1)
    if (rows < R) return tile_of<W, R - 1>(rows, pairs);
  return pairs == 2 ? tile<W, R, W::FROM <= R && R <= W::TWO ? 2 : 1> : tile<W, R, 1>;
}

template <class W>
void product(const Team& team, const float* x, long stride, long rows, const Output& output) {
  auto [begin, end] = team.share(padded(output.linear.out) / PANEL);
  begin *= PAIRS, end *= PAIRS;
  const long blocks = (rows + MOST - 1) / MOST;
  for (long pair = begin; pair < end;) {
    int pairs = W::FROM <= rows && rows <= W::TWO && pair + 2 <= end ? 2 : 1;
    for (long block = 0; block < blocks; block++) {
      long row = rows * block / blocks, behind = rows * (block + 1) / blocks;
      tile_of<W>((int)(behind - row), pairs)(x + row * stride, stride, pair, output, row);
    }
    pair += pairs;
  }
}

// x [rows, stride] @ weight + bias, into or added to out.
void product(const Team& team, const Linear& linear, const float* x, long stride, long rows,
             float* out, long out_stride, bool add = false) {
  Output output{out, out_stride, linear, add};
  if (linear.bfloat16)
    product<BFloat16>(team, x, stride, rows, output);
  else
    product<Float32>(team, x, stride, rows, output);
}

}  // namespace
