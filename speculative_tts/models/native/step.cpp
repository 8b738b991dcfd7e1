// A pass of new tokens through a decoder on a CPU: Qwen2, Llama and VALL-E's trunk.
//
// The readable reference is `Decoder.extend` in models/decoder.py (and `Trunk.extend`): the same
// steps in the same order on the same folded weights. This file adds two things.
//
// Speed: weights are packed once into panels of 32 columns, a pass reads each of them once, and
// nothing but arithmetic happens in between.
//
// One order for every sum. A number of the result is always the same chain of operations on the
// same inputs, whatever the number of rows, of rows of a batch, of threads and of lanes of a vector:
// products add up along their inputs one by one; sums over a row are 16 partial sums, then a tree.
// So a token's logits do not depend on what is computed beside it, bit for bit. Compilers must keep
// the order: -ffp-contract=off, never -ffast-math; a multiplication is fused only where `fma` says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#ifndef _WIN32
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "native.h"
#include "threads.h"
#include "vectors.h"

namespace {

// ---- Products ----------------------------------------------------------------------------------

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

// ---- Norms and activations ---------------------------------------------------------------------

// y = x / sqrt(|x|^2 + hidden * eps) (* gain): the factor sqrt(hidden) is in the next matrix.
void rms_norm(const float* x, float* y, long n, float eps, const float* gain) {
  Sum squares;
  for (long i = 0; i < n; i += BLOCK)
    for (int j = 0; j < PARTS; j++) {
      Vec v = load(x + i + j * LANES);
      squares.part[j] = fma(v, v, squares.part[j]);
    }
  Vec factor = all(1.f / std::sqrt(squares.total() + eps));
  for (long i = 0; i < padded(n, BLOCK); i += LANES) {
    Vec v = load(x + i) * factor;
    store(y + i, gain ? v * load(gain + i) : v);
  }
}

void layer_norm(const float* x, float* y, long n, float eps, const float* gain, const float* bias) {
  const long whole = padded(n, BLOCK);
  Sum sum, squares;
  for (long i = 0; i < n; i += BLOCK)  // x is 0 behind n
    for (int j = 0; j < PARTS; j++) sum.part[j] += load(x + i + j * LANES);
  Vec mean = all(sum.total() / n);
  for (long i = 0; i < whole; i += LANES) store(y + i, load(x + i) - mean);
  for (long i = n; i < whole; i++) y[i] = 0;
  for (long i = 0; i < n; i += BLOCK)
    for (int j = 0; j < PARTS; j++) {
      Vec v = load(y + i + j * LANES);
      squares.part[j] = fma(v, v, squares.part[j]);
    }
  Vec factor = all(1.f / std::sqrt(squares.total() / n + eps));
  for (long i = 0; i < whole; i += LANES)  // gain and bias are 0 behind n
    store(y + i, fma(load(y + i) * factor, load(gain + i), load(bias + i)));
}

INLINE Vec activated(const float* x, long gate) {  // ReLU, or SiLU(x[0 ..]) * x[gate ..]
  Vec v = load(x);
  if (!gate) return v > all(0.f) ? v : all(0.f);
  return v / (all(1.f) + exponential(-v)) * load(x + gate);
}

// ---- Attention ---------------------------------------------------------------------------------

constexpr int QUERIES = REGISTERS == 32 ? 8 : 4;  // that share what is read of keys and values
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

template <int N, int V>
void scores_at(const Query* queries, const Head& head, long position, float* scores, long stride) {
  Vec sum[N][V] = {};
  for (long d = 0; d < head.dim; d++) {
    const float* row = head.keys + d * head.capacity + position;
    for (int v = 0; v < V; v++) {
      Vec key = load(row + v * LANES);
      for (int n = 0; n < N; n++) sum[n][v] = fma(all(queries[n].vector[d]), key, sum[n][v]);
    }
  }
  for (int n = 0; n < N; n++)
    for (int v = 0; v < V; v++) store(scores + n * stride + position + v * LANES, sum[n][v]);
}

template <int N, int V>
void mixed_at(const float* weights, long stride, const Head& head, long column, long span,
              float (*out)[512]) {
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
  Sum sum;
  for (long p = 0; p < whole; p += BLOCK)
    for (int j = 0; j < PARTS; j++) {
      float* at = scores + p + j * LANES;
      store(at, exponential(load(at) - all(largest)));
      for (long i = std::max(0L, length - p - j * LANES); i < LANES; i++) at[i] = 0;
      sum.part[j] += load(at);
    }
  return sum.total();
}

template <int N>
void attend(const Query* queries, const Head& head, float* scores, long stride) {
  constexpr int V = 2 * N <= QUERIES ? 4 : 2;
  const long span = queries[N - 1].length;
  for (long p = 0; p < span; p += V * LANES) scores_at<N, V>(queries, head, p, scores, stride);
  float sums[N], out[N][512];
  for (int n = 0; n < N; n++) {
    sums[n] = exponentials(scores + n * stride, queries[n].length);
    for (long p = queries[n].length; p < span; p++) scores[n * stride + p] = 0;
  }
  long column = 0;
  for (; column + V * LANES <= head.stride; column += V * LANES)
    mixed_at<N, V>(scores, stride, head, column, span, out);
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

// ---- The pass ----------------------------------------------------------------------------------

struct Run {  // buffers and sizes of one pass
  const Model& m;
  const Pass& p;
  const long rows, dim, value_stride, per_head, x_stride, wide_stride, mixed_stride, score_stride;
  float *x, *y, *wide, *mixed, *scores;

  Run(const Model& model, const Pass& pass, std::vector<float>& buffer)
      : m(model), p(pass), rows((long)p.batch * p.fresh), dim(m.head_dim),
        value_stride(padded(dim, BLOCK)), per_head((dim + value_stride) * p.capacity),
        x_stride(padded(m.hidden)),
        wide_stride(padded(std::max<long>((m.heads + 2L * m.kv_heads) * dim,
                                          (1L + m.gated) * m.intermediate)) + PANEL),
        mixed_stride(padded(std::max<long>(m.heads * dim, m.intermediate))),
        score_stride(p.capacity + SLACK) {
    long sizes[] = {rows * x_stride, rows * x_stride, rows * wide_stride, rows * mixed_stride,
                    p.threads * QUERIES * score_stride};
    long total = 0;
    for (long size : sizes) total += padded(size);
    if ((long)buffer.size() < total + PANEL) buffer.resize(total + PANEL);
    float* next = (float*)padded((long)buffer.data(), 64);
    float** parts[] = {&x, &y, &wide, &mixed, &scores};
    for (int i = 0; i < 5; i++) *parts[i] = next, next += padded(sizes[i]);
    std::memset(x, 0, rows * x_stride * sizeof(float));
    for (long r = 0; r < rows; r++)
      std::memcpy(x + r * x_stride, p.inputs + r * m.hidden, m.hidden * sizeof(float));
  }

  float* keys(int layer, long row, long head) const {
    return p.cache + (((long)layer * p.rows + p.first + row) * m.kv_heads + head) * per_head;
  }

  void norm(const Team& team, float* to, const float* gain, const float* bias) const {
    auto [begin, end] = team.share(rows);
    for (long r = begin; r < end; r++)
      if (m.layer_norm)
        layer_norm(x + r * x_stride, to + r * x_stride, m.hidden, m.eps, gain, bias);
      else
        rms_norm(x + r * x_stride, to + r * x_stride, m.hidden, m.eps, gain);
  }

  // Turns queries and keys (RoPE) and stores keys and values.
  void rotate_and_store(const Team& team, int layer) const {
    const long all_heads = m.heads + 2L * m.kv_heads;
    auto [begin, end] = team.share(rows * all_heads);
    for (long item = begin; item < end; item++) {
      long r = item / all_heads, h = item % all_heads, row = r / p.fresh;
      long position = p.start[row] + r % p.fresh;
      float* v = wide + r * wide_stride + h * dim;
      if (p.rotations && h < m.heads + m.kv_heads) {
        const float* turn = p.rotations + position * dim;
        for (long d = 0; d < dim; d += 2) {
          float a = v[d], b = v[d + 1];
          v[d] = a * turn[d] - b * turn[d + 1];
          v[d + 1] = a * turn[d + 1] + b * turn[d];
        }
      }
      if (h < m.heads) continue;
      long head = (h - m.heads) % m.kv_heads;
      float* stored = keys(layer, row, head);
      if (h < m.heads + m.kv_heads)
        for (long d = 0; d < dim; d++) stored[d * p.capacity + position] = v[d];
      else
        std::memcpy(stored + dim * p.capacity + position * value_stride, v, dim * sizeof(float));
    }
  }

  // Grouped-query attention: the queries of one kv head share its keys.
  void attention(const Team& team, int layer) const {
    const long groups = m.heads / m.kv_heads, queries = p.fresh * groups;
    const long tiles = (queries + QUERIES - 1) / QUERIES;
    auto [begin, end] = team.share(p.batch * m.kv_heads * tiles);
    for (long item = begin; item < end; item++) {
      long row = item / tiles / m.kv_heads, kv = item / tiles % m.kv_heads, t = item % tiles;
      const float* stored = keys(layer, row, kv);
      Head head{stored, stored + dim * p.capacity, p.capacity, dim, value_stride};
      Query some[QUERIES];
      long from = queries * t / tiles, to = queries * (t + 1) / tiles;
      for (long q = from; q < to; q++) {
        long r = row * p.fresh + q / groups, h = kv * groups + q % groups;
        some[q - from] = {wide + r * wide_stride + h * dim, mixed + r * mixed_stride + h * dim,
                          std::max<long>(p.start[row] + q / groups + 1, p.prefix)};
      }
      attend<>((int)(to - from), some, head, scores + my_place * QUERIES * score_stride,
               score_stride);
    }
  }

  void activate(const Team& team) const {
    const long pieces = (m.intermediate + BLOCK - 1) / BLOCK;
    auto [begin, end] = team.share(rows * pieces);
    for (long item = begin; item < end; item++) {
      long r = item / pieces, column = item % pieces * BLOCK;
      for (int j = 0; j < BLOCK; j += LANES)
        store(mixed + r * mixed_stride + column + j,
              activated(wide + r * wide_stride + column + j, m.gated ? m.intermediate : 0));
    }
  }

  // As `Decoder.extend`; each line ends when all threads have done their share.
  void operator()(Team& team) const {
    for (int index = 0; index < m.count; index++) {
      const Layer& l = m.layers[index];
      const float* seen = m.norm_first ? y : x;
      if (m.norm_first) norm(team, y, l.gain1, l.bias1), team.barrier();
      product(team, l.qkv, seen, x_stride, rows, wide, wide_stride), team.barrier();
      rotate_and_store(team, index), team.barrier();
      attention(team, index), team.barrier();
      product(team, l.out, mixed, mixed_stride, rows, x, x_stride, true), team.barrier();
      norm(team, m.norm_first ? y : x, m.norm_first ? l.gain2 : l.gain1,
           m.norm_first ? l.bias2 : l.bias1), team.barrier();
      product(team, l.up, seen, x_stride, rows, wide, wide_stride), team.barrier();
      activate(team), team.barrier();
      product(team, l.down, mixed, mixed_stride, rows, x, x_stride, true), team.barrier();
      if (!m.norm_first) norm(team, x, l.gain2, l.bias2), team.barrier();
    }
    if (m.norm_first) norm(team, y, m.gain, m.bias), team.barrier();
    auto [begin, end] = team.share(rows);
    for (long r = begin; r < end; r++)
      std::memcpy(p.hidden + r * m.hidden, (m.norm_first ? y : x) + r * x_stride,
                  m.hidden * sizeof(float));
  }
};

constexpr int PIECE = 256;  // positions of a prompt at a time

}  // namespace

// ---- What Python calls -------------------------------------------------------------------------

#ifndef SST_SOURCE
#define SST_SOURCE "unknown"
#endif

extern "C" {

// Which text this was compiled from.
const char* sst_source() { return SST_SOURCE; }

// Positions start .. start + fresh of each row through all layers. Keys and values are stored.
// Nothing happens when a row is longer than the cache or the rotations; returns the longest row.
int64_t sst_extend(const Model* model, const Pass* pass) {
  thread_local std::vector<float> memory;
  int64_t longest = *std::max_element(pass->start, pass->start + pass->batch) + pass->fresh;
  if (longest > pass->room || *std::min_element(pass->start, pass->start + pass->batch) < 0)
    return longest;
  // A long prompt in pieces, which changes no bit: less memory is in use at a time.
  const int most = pass->batch == 1 && !pass->prefix ? PIECE : pass->fresh;
  for (int done = 0; done < pass->fresh; done += most) {
    Pass part = *pass;
    int64_t start = pass->start[0] + done;
    if (most < pass->fresh) part.start = &start;
    part.inputs += (long)done * model->hidden, part.hidden += (long)done * model->hidden;
    part.fresh = std::min(most, pass->fresh - done);
    const Run run(*model, part, memory);
    Pool::run(part.threads, [&run](Team& team) { run(team); });
  }
  return longest;
}

// x [rows, in] @ weight + bias -> out [rows, linear.out].
void sst_product(const Linear* linear, const float* x, int64_t rows, float* out, int32_t threads) {
  Pool::run(threads, [=](Team& team) {
    product(team, *linear, x, linear->in, rows, out, linear->out);
  });
}

// Reads memory and does nothing else: what a step could be at best. Returns the sum.
float sst_read(const float* data, int64_t count) {
  Vec sum[8] = {};
  for (int64_t i = 0; i + 8 * LANES <= count; i += 8 * LANES)
    for (int j = 0; j < 8; j++) sum[j] += load(data + i + j * LANES);
  for (int j = 1; j < 8; j++) sum[0] += sum[j];
  return sum[0][0];
}

// Back to the system with what the heap has free between what it holds, as loading leaves it.
void sst_trim() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Large pages for weights: fewer misses of the address cache when all of them are read.
void sst_large_pages(void* data, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  const long page = 4096;
  long begin = padded((long)data, page), end = ((long)data + bytes) / page * page;
  if (end > begin) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}
}
