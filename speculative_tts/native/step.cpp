// A pass of new tokens through a decoder on a CPU: Qwen2, Qwen3, Llama and VALL-E's trunk.
//
// The readable reference is `Decoder.extend` in models/decoder/decoder.py (and `Trunk.extend`): the same
// steps in the same order on the same folded weights. This file adds two things.
//
// Speed: weights are packed once into panels of 16 or 32 columns, a pass reads each of them once, and
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

#include "attention.h"
#include "native.h"
#include "products.h"
#include "threads.h"
#include "vectors.h"

namespace {

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

// ---- The pass ----------------------------------------------------------------------------------

struct Run {  // buffers and sizes of one pass
  const Model& m;
  const Pass& p;
  long rows, skipped = 0;  // positions of each row of the batch before the first that is computed
  const long dim, value_stride, per_head, x_stride, wide_stride, mixed_stride, score_stride;
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

  // The norm of one query or key head, where the model has such.
  void norm_head(float* v, const float* gain) const {
    alignas(64) float padded_with_0[WIDEST_HEAD + BLOCK];
    std::memcpy(padded_with_0, v, dim * sizeof(float));
    std::fill(padded_with_0 + dim, padded_with_0 + padded(dim, BLOCK), 0.f);
    rms_norm(padded_with_0, padded_with_0, dim, m.head_eps, gain);
    std::memcpy(v, padded_with_0, dim * sizeof(float));
  }

  // Norms and turns (RoPE) queries and keys, and stores keys and values.
  void rotate_and_store(const Team& team, int layer) const {
    const long all_heads = m.heads + 2L * m.kv_heads;
    auto [begin, end] = team.share(rows * all_heads);
    for (long item = begin; item < end; item++) {
      long r = item / all_heads, h = item % all_heads, row = r / p.fresh;
      long position = p.start[row] + r % p.fresh;
      float* v = wide + r * wide_stride + h * dim;
      const float* gain = h < m.heads ? m.layers[layer].query_gain : m.layers[layer].key_gain;
      if (gain && h < m.heads + m.kv_heads) norm_head(v, gain);
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
    const long fresh = p.fresh - skipped, groups = m.heads / m.kv_heads, queries = fresh * groups;
    const long tiles = (queries + QUERIES - 1) / QUERIES;
    auto [begin, end] = team.share(p.batch * m.kv_heads * tiles);
    for (long item = begin; item < end; item++) {
      long row = item / tiles / m.kv_heads, kv = item / tiles % m.kv_heads, t = item % tiles;
      const float* stored = keys(layer, row, kv);
      Head head{stored, stored + dim * p.capacity, p.capacity, dim, value_stride};
      Query some[QUERIES];
      long from = queries * t / tiles, to = queries * (t + 1) / tiles;
      for (long q = from; q < to; q++) {
        long r = row * fresh + q / groups, h = kv * groups + q % groups;
        some[q - from] = {wide + r * wide_stride + h * dim, mixed + r * mixed_stride + h * dim,
                          std::max<long>(p.start[row] + skipped + q / groups + 1, p.prefix)};
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
    const Run last = wanted();
    for (int index = 0; index < m.count; index++) {
      tap(team, index);
      store_new(team, index);
      (index + 1 < m.count ? *this : last).go_on(team, m.layers[index], index);
    }
    last.finish(team);
  }

 private:
  // Behind the last layer's keys and values only some positions count.
  Run wanted() const {
    Run some = *this;
    if (p.batch == 1) some.skipped = p.fresh - p.keep, some.rows = p.keep;
    for (auto [part, stride] : {std::pair{&some.x, x_stride}, {&some.y, x_stride},
                                {&some.wide, wide_stride}, {&some.mixed, mixed_stride}})
      *part += some.skipped * stride;
    return some;
  }

  // Copies what a layer is fed, where that is wanted; it is not written to before the next barrier.
  void tap(const Team& team, int index) const {
    for (int t = 0; t < p.taps; t++) {
      if (p.tap_layers[t] != index) continue;
      auto [begin, end] = team.share(rows);
      for (long r = begin; r < end; r++)
        std::memcpy(p.tapped + t * p.tap_stride + r * m.hidden, x + r * x_stride,
                    m.hidden * sizeof(float));
    }
  }

  // Asks early for the places of new keys, which lie far apart.
  void ask(const Team& team, int index) const {
    auto [begin, end] = team.share((long)p.batch * m.kv_heads);
    for (long item = begin; item < end; item++) {
      const long row = item / m.kv_heads;
      const float* stored = keys(index, row, item % m.kv_heads) + p.start[row];
      for (long d = 0; d < dim; d++) __builtin_prefetch(stored + d * p.capacity, 1, 2);
    }
  }

  void store_new(Team& team, int index) const {
    const Layer& l = m.layers[index];
    ask(team, index);
    if (m.norm_first) norm(team, y, l.gain1, l.bias1), team.barrier();
    product(team, l.qkv, m.norm_first ? y : x, x_stride, rows, wide, wide_stride), team.barrier();
    rotate_and_store(team, index), team.barrier();
  }

  void go_on(Team& team, const Layer& l, int index) const {
    attention(team, index), team.barrier();
    product(team, l.out, mixed, mixed_stride, rows, x, x_stride, true), team.barrier();
    norm(team, m.norm_first ? y : x, m.norm_first ? l.gain2 : l.gain1,
         m.norm_first ? l.bias2 : l.bias1), team.barrier();
    product(team, l.up, m.norm_first ? y : x, x_stride, rows, wide, wide_stride), team.barrier();
    activate(team), team.barrier();
    product(team, l.down, mixed, mixed_stride, rows, x, x_stride, true), team.barrier();
    if (!m.norm_first) norm(team, x, l.gain2, l.bias2), team.barrier();
  }

  void finish(Team& team) const {
    if (m.norm_first) norm(team, y, m.gain, m.bias), team.barrier();
    auto [begin, end] = team.share(rows);
    for (long r = begin; r < end; r++)
      std::memcpy(p.hidden + (skipped + r) * m.hidden, (m.norm_first ? y : x) + r * x_stride,
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

int64_t sst_panel() { return PANEL; }

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
    if (part.taps) part.tapped += (long)done * model->hidden;
    part.fresh = std::min(most, pass->fresh - done);
    part.keep = std::max(0, part.fresh - std::max(0, pass->fresh - pass->keep - done));
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
