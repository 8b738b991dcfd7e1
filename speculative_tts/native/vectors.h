// Vectors of floats, as wide as the machine has them, and sums whose order does not depend on that.
#pragma once

#include <algorithm>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

constexpr int BLOCK = 16;
#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int LANES = 8, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int LANES = 4, REGISTERS = 32;
#else
constexpr int LANES = 4, REGISTERS = 16;
#endif
constexpr int PARTS = BLOCK / LANES;
// Columns of a panel: what tiles of many rows read at once, so that memory is read as it lies.
constexpr int PANEL = REGISTERS == 32 ? 32 : 16;
#define VECTOR(type) __attribute__((vector_size(4 * LANES), aligned(4), may_alias)) type
#define INLINE static inline __attribute__((always_inline))
typedef VECTOR(float) Vec;
typedef VECTOR(int32_t) Ints;
typedef VECTOR(uint32_t) Words;

INLINE Vec load(const float* p) { return *(const Vec*)p; }
INLINE void store(float* p, Vec v) { *(Vec*)p = v; }
// `fma` is a * b + c; `KEEP` stops the compiler from reading a weight again for the next row.
#if defined(__AVX512F__)
INLINE Vec all(float x) { return (Vec)_mm512_set1_ps(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#define KEEP(v) __asm__("" : "+v"(v))
#elif defined(__AVX2__)
INLINE Vec all(float x) { return (Vec)_mm256_set1_ps(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#define KEEP(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
INLINE Vec all(float x) { return (Vec)vdupq_n_f32(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) {
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#define KEEP(v) __asm__("" : "+w"(v))
#else
INLINE Vec all(float x) { return Vec{x, x, x, x}; }
INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
#define KEEP(v)
#endif

INLINE bool any(Ints mask) {  // of a comparison
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  int32_t bits = 0;
  for (int i = 0; i < LANES; i++) bits |= mask[i];
  return bits != 0;
#endif
}

INLINE Vec exponential(Vec x) {  // of -87 .. 88, to 2 units in the last place (Cephes' expf)
  x = x < all(-87.f) ? all(-87.f) : x;
  x = x > all(88.f) ? all(88.f) : x;
  Vec t = x * all(1.44269504088896341f);
  Ints n = __builtin_convertvector(t + (t < all(0.f) ? all(-.5f) : all(.5f)), Ints);
  Vec whole = __builtin_convertvector(n, Vec);
  x = fma(whole, all(-0.693359375f), x);
  x = fma(whole, all(2.12194440e-4f), x);
  Vec y = all(1.9875691500e-4f);
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                  5.0000001201e-1f})
    y = fma(y, x, all(c));
  y = fma(y * x, x, x) + all(1.f);
  return y * (Vec)((n + 127) << 23);
}

inline void silu(float* x, long n) {  // in place, up to the next multiple of `LANES`
  for (long i = 0; i < n; i += LANES) {
    const Vec v = load(x + i);
    store(x + i, v / (all(1.f) + exponential(-v)));
  }
}

struct Sum {  // 16 partial sums, whatever the lanes
  Vec part[PARTS] = {};
  float total() const {
    float s[BLOCK];
    for (int i = 0; i < PARTS; i++) store(s + i * LANES, part[i]);
    for (int width = BLOCK / 2; width; width /= 2)
      for (int i = 0; i < width; i++) s[i] += s[i + width];
    return s[0];
  }
};

INLINE long padded(long n, long to = PANEL) { return (n + to - 1) / to * to; }

// Most of a law is 0, which adds nothing.
INLINE bool empty(const float* law, long begin, long n) {
  return begin + LANES <= n && !any(load(law + begin) != all(0.f));
}

// All mass of a law, added from its first id on.
inline double total(const float* law, long n) {
  double sum = 0;
  for (long begin = 0; begin < n; begin += LANES) {
    if (empty(law, begin, n)) continue;
    for (long i = begin; i < std::min(begin + LANES, n); i++) sum += law[i];
  }
  return sum;
}

}  // namespace
