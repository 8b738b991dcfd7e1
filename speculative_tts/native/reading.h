// Passes of one model over tokens of a batch.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "native.h"

namespace {

// The input of an id at a place behind the prompt of row b.
inline void embed(const Reader& r, int64_t id, long b, int64_t place, float* out) {
  const long hidden = r.model->hidden, row = r.order ? r.order[id] : id;
  if (!r.bfloat16) {
    const float* own = (const float*)r.embedding + row * hidden;
    if (!r.places) return (void)std::memcpy(out, own, hidden * sizeof(float));
    const float* added = r.places + (r.lengths[b] + place - r.skipped[b]) * hidden;
    for (long i = 0; i < hidden; i++) out[i] = own[i] + added[i];
    return;
  }
  const uint16_t* half = (const uint16_t*)r.embedding + row * hidden;
  for (long i = 0; i < hidden; i++) {
    const uint32_t bits = (uint32_t)half[i] << 16;
    std::memcpy(out + i, &bits, sizeof(float));
  }
}

class Reading {
 public:
  Reading(const Reader& reader, const Tokens& batch, const Rows& rows)
      : r(reader), t(batch), n(rows.batch), capacity(rows.capacity), hidden(reader.model->hidden),
        vocab(reader.head->out), start(rows.batch) {}

  // Feeds `feed` tokens of each row, those before place at[b]; states [batch, keep, hidden] behind
  // the last `keep` of them. A row that has fewer is fed something behind them too, which counts
  // for nothing. False where the cache is too short.
  bool feed(const int64_t* at, long feed, long keep) {
    inputs.resize(n * feed * hidden), states.resize(inputs.size());
    for (long b = 0; b < n; b++) {
      const int64_t from = std::max<int64_t>(0, at[b] - feed);
      for (long f = 0; f < feed; f++) {
        const int64_t id = t.tokens[b * capacity + from + f];
        embed(r, std::min<int64_t>(id, vocab - 1), b, from + f, &inputs[(b * feed + f) * hidden]);
      }
      start[b] = r.lengths[b] + from;
    }
    Pass now = *r.pass;
    now.inputs = inputs.data(), now.start = start.data(), now.hidden = states.data();
    now.fresh = now.keep = (int32_t)feed;
    if (sst_extend(r.model, &now) > now.room) return false;
    for (long b = 0; b < n && keep < feed; b++) {  // to the front, row by row
      const int64_t last = std::max<int64_t>(keep, std::min<int64_t>(at[b], feed));
      std::memmove(&states[b * keep * hidden], &states[(b * feed + last - keep) * hidden],
                   keep * hidden * sizeof(float));
    }
    return true;
  }

  // The same as logits [batch, keep, vocab].
  bool operator()(const int64_t* at, long feed, long keep) {
    if (!this->feed(at, feed, keep)) return false;
    logits.resize(n * keep * vocab);
    sst_product(r.head, states.data(), n * keep, logits.data(), r.pass->threads);
    return true;
  }

  std::vector<float> states, logits;

 private:
  const Reader& r;
  const Tokens& t;
  const long n, capacity, hidden, vocab;
  std::vector<float> inputs;
  std::vector<int64_t> start;
};

inline double* uniforms_at(const Tokens& t, const Rows& rows, long b, int64_t place) {
  return t.uniforms + (b * rows.capacity + place) * t.draws;
}

}  // namespace
