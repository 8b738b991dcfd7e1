// Products of rows with packed weights: each sum along the inputs one by one, whatever the rows.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "native.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr int PAIR = 2 * LANES;  // columns of two vectors, which a tile has one, two or four of
static_assert(PANEL % PAIR == 0);
constexpr int by_set(int registers_32, int avx2, int portable) {
  return REGISTERS == 32 ? registers_32 : LANES == 8 ? avx2 : portable;
}
// A tile of so many rows (of 8 bits of any number) asks for weights ahead; with fewer the processor's
// own prefetching is the faster one. It asks that far ahead, by AVX2 in turn for a line (of 8 bits
// half a one) of each of two panels, those behind its own two (of the last, of what lies behind the
// matrix, mostly the next one): the first of two asks for their first halves, the second for the
// others. Two streams have more lines on their way than one.
constexpr int MANY = by_set(5, 2, 2);
constexpr bool TURNS = by_set(false, true, false);
constexpr long AHEAD = 16384, LINE = 64;  // bytes; a line of a cache

// `TWO`: the most rows of which two pairs at a time are faster, `FROM` the fewest; `FOUR`: of which
// four are. One is a single stream to read, more keep more sums going at once.
// `MOST`: rows of a tile, `OFTEN`: of each where a product takes several; `ASKING`: those from which
// it asks ahead. A `Word` is what is kept of a column at a step.
struct Float32 {
  typedef float Input;
  typedef float Word;
  static constexpr int FROM = 1, TWO = by_set(0, 0, 2), FOUR = by_set(0, 1, 1);
  static constexpr int MOST = by_set(12, 6, 6), OFTEN = MOST, ASKING = MANY;
  static long steps(long inputs) { return inputs; }
  INLINE Vec weights(const Word* p) { return load(p); }
  INLINE Vec dot(Vec weights, float x, Vec sum) { return fma(all(x), weights, sum); }
  INLINE Vec value(Vec sum, const Linear&, long, float) { return sum; }
};
// Two inputs at a time, side by side in a word, the second in its upper half and added first, as
// AVX512-BF16 does. What is fed is rounded to bfloat16 too.
struct BFloat16 {
  typedef float Word;
  static constexpr int FROM = by_set(3, 1, 1), TWO = by_set(6, 0, 2), FOUR = Float32::FOUR;
  static constexpr int MOST = by_set(12, 5, 6), OFTEN = by_set(12, 4, 6), ASKING = MANY;
  static long steps(long inputs) { return (inputs + 1) / 2; }
  INLINE Vec weights(const Word* p) { return load(p); }
  INLINE Vec value(Vec sum, const Linear&, long, float) { return sum; }
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
  static float read(const float* x, long n, Input* to) {
    for (long i = 0; i < n / 2; i++) to[i] = both(rounded(x[2 * i]), rounded(x[2 * i + 1]));
    if (n % 2) to[n / 2] = both(rounded(x[n - 1]), 0);
    return 1;
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
// Two inputs at a time, integers of up to 16 bits; sums of integers, which no order changes. A sum's
// scale is that of its column times that of the row that was fed.
struct Int8 {
  typedef uint32_t Input;
  typedef int16_t Word;
  static constexpr int FROM = 1, TWO = by_set(4, 0, 2), FOUR = 0;
  static constexpr int MOST = by_set(8, 4, 6), OFTEN = MOST, ASKING = 1;
  static long steps(long inputs) { return (inputs + 1) / 2; }
#if defined(__AVX512F__)
  INLINE Vec weights(const Word* p) {
    return (Vec)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)p));
  }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    const __m512i w = (__m512i)weights, both = _mm512_set1_epi32((int)x);
#ifdef __AVX512VNNI__
    return (Vec)_mm512_dpwssd_epi32((__m512i)sum, w, both);
#else
    return (Vec)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16(w, both));
#endif
  }
#elif defined(__AVX2__)
  INLINE Vec weights(const Word* p) {
    return (Vec)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p));
  }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    const __m256i both = _mm256_madd_epi16((__m256i)weights, _mm256_set1_epi32((int)x));
    return (Vec)_mm256_add_epi32((__m256i)sum, both);
  }
#elif defined(__SSE2__)
  INLINE Vec weights(const Word* p) {
    const __m128i w = _mm_loadl_epi64((const __m128i*)p);
    return (Vec)_mm_srai_epi16(_mm_unpacklo_epi8(w, w), 8);
  }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    const __m128i both = _mm_madd_epi16((__m128i)weights, _mm_set1_epi32((int)x));
    return (Vec)_mm_add_epi32((__m128i)sum, both);
  }
#elif defined(__aarch64__)
  INLINE Vec weights(const Word* p) { return (Vec)vmovl_s8(vld1_s8((const int8_t*)p)); }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    const int16x8_t w = (int16x8_t)weights, both = (int16x8_t)vdupq_n_u32(x);
    const int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(both));
    return (Vec)vaddq_s32((int32x4_t)sum, vpaddq_s32(low, vmull_high_s16(w, both)));
  }
#else
  INLINE Vec weights(const Word* p) {
    Ints w;
    for (int i = 0; i < LANES; i++) w[i] = (p[i] >> 8) * 65536 + (uint16_t)(int8_t)p[i];
    return (Vec)w;
  }
  INLINE Vec dot(Vec weights, Input x, Vec sum) {
    const Ints w = (Ints)weights;
    return (Vec)((Ints)sum + (w >> 16) * ((int32_t)x >> 16) + (w << 16 >> 16) * (int16_t)x);
  }
#endif
  INLINE Vec value(Vec sum, const Linear& linear, long column, float fed) {
    return __builtin_convertvector((Ints)sum, Vec) * (load(linear.scale + column) * all(fed));
  }
  // What the row's integers are multiplied with. These are as large as sums of them may be.
  static float read(const float* x, long n, Input* to) {
    uint32_t bits = 0;  // of the largest without its sign: they are in the order of the numbers
    for (long i = 0; i < n; i++) {
      uint32_t one;
      std::memcpy(&one, x + i, sizeof(one));
      bits = std::max(bits, one & 0x7fffffffu);
    }
    const float largest = BFloat16::number(bits);
    if (!(largest < INFINITY)) return std::fill_n(to, steps(n), 0), NAN;
    const float step = std::max(largest / (float)std::min<long>(32767, INT32_MAX / (127 * n)), FLT_MIN);
    const auto whole = [&](long i) { return (uint16_t)(int16_t)std::nearbyintf(x[i] / step); };
    for (long i = 0; i < n / 2; i++) to[i] = (Input)whole(2 * i + 1) << 16 | whole(2 * i);
    if (n % 2) to[n / 2] = whole(n - 1);
    return step;
  }
};

struct Output {
  float* to;  // [rows, stride]
  long stride;
  const Linear& linear;
  bool add;
  const float* fed;  // of each row, what `read` said
  template <class W>
  void put(long row, long column, Vec sum) const {
    float* p = to + row * stride + column;
    Vec v = W::value(sum, linear, column, fed ? fed[row] : 1);
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
  const long steps = W::steps(output.linear.in), size = steps * PANEL;
  const auto* panels = (const typename W::Word*)output.linear.panels;
  const typename W::Word* w[P];
  for (int p = 0; p < P; p++) {
    const long column = (first + p) * PAIR;
    w[p] = panels + column / PANEL * size + column % PANEL;
  }
  Vec low[R][P] = {}, high[R][P] = {};
  const auto multiply = [&](long k) __attribute__((always_inline)) {
    for (int p = 0; p < P; p++) {
      const typename W::Word* now = w[p] + k * PANEL;
      Vec a = W::weights(now), b = W::weights(now + LANES);
      for (size_t at = 0; !TURNS && R >= W::ASKING && at < PAIR * sizeof(*now); at += LINE)
        __builtin_prefetch((const char*)now + AHEAD + at, 0, 2);
      if (R > 1) {
        KEEP(a);
        KEEP(b);
      }
      for (int r = 0; r < R; r++) {
        low[r][p] = W::dot(a, x[r * stride + k], low[r][p]);
        high[r][p] = W::dot(b, x[r * stride + k], high[r][p]);
      }
    }
  };
  long k = 0;
  if constexpr (TURNS && R >= W::ASKING) {
    static_assert(PAIR == PANEL && P == 1);
    const auto* next = panels + (first / 2 + 1) * 2 * size + first % 2 * (size / 2);
    for (; k + 2 <= steps; k += 2, next += PANEL) {
      multiply(k);
      __builtin_prefetch(next, 0, 2);
      multiply(k + 1);
      __builtin_prefetch(next + size, 0, 2);
    }
  }
  for (; k < steps; k++) multiply(k);
  for (int r = 0; r < R; r++)
    for (int p = 0; p < P; p++) {
      output.template put<W>(row + r, (first + p) * PAIR, low[r][p]);
      output.template put<W>(row + r, (first + p) * PAIR + LANES, high[r][p]);
    }
}

template <class W>
constexpr int pairs_of(long rows) {
  if (rows <= W::FOUR) return 4;
  return W::FROM <= rows && rows <= W::TWO ? 2 : 1;
}

template <class W, int R = W::MOST>
void tiles(int rows, int pairs, const typename W::Input* x, long stride, long first,
           const Output& output, long row) {
  if constexpr (R > 1)
    if (rows < R) return tiles<W, R - 1>(rows, pairs, x, stride, first, output, row);
  if constexpr (pairs_of<W>(R) == 4)
    if (pairs == 4) return tile<W, R, 4>(x, stride, first, output, row);
  if constexpr (pairs_of<W>(R) > 1)
    if (pairs == 2) return tile<W, R, 2>(x, stride, first, output, row);
  tile<W, R, 1>(x, stride, first, output, row);
}

template <class W>
void by_tiles(const Team& team, const typename W::Input* x, long stride, long rows,
              const Output& output) {
  auto [begin, end] = team.share(padded(output.linear.out) / PANEL);
  begin *= PANEL / PAIR, end *= PANEL / PAIR;
  const long blocks = rows <= W::MOST ? rows > 0 : (rows + W::OFTEN - 1) / W::OFTEN;
  for (long pair = begin; pair < end;) {
    int pairs = pairs_of<W>(rows);
    while (pair + pairs > end) pairs /= 2;
    for (long block = 0; block < blocks; block++) {
      long row = rows * block / blocks, behind = rows * (block + 1) / blocks;
      tiles<W>((int)(behind - row), pairs, x + row * stride, stride, pair, output, row);
    }
    pair += pairs;
  }
}

// With inputs as W reads them, rounded.
template <class W>
void product(const Team& team, const float* x, long stride, long rows, Output output) {
  thread_local std::vector<typename W::Input> inputs;
  thread_local std::vector<float> scales;
  const long in = output.linear.in, steps = W::steps(in);
  inputs.resize(std::max<size_t>(inputs.size(), rows * steps));
  scales.resize(std::max<size_t>(scales.size(), rows));
  for (long r = 0; r < rows; r++) scales[r] = W::read(x + r * stride, in, &inputs[r * steps]);
  output.fed = scales.data();
  by_tiles<W>(team, inputs.data(), steps, rows, output);
}

// x [rows, stride] @ weight + bias, into or added to out.
void product(const Team& team, const Linear& linear, const float* x, long stride, long rows,
             float* out, long out_stride, bool add = false) {
  const Output output{out, out_stride, linear, add, nullptr};
  switch (linear.format) {
    case BFLOAT16: return product<BFloat16>(team, x, stride, rows, output);
    case INT8: return product<Int8>(team, x, stride, rows, output);
    default: return by_tiles<Float32>(team, x, stride, rows, output);
  }
}

}  // namespace
