// Blocks of several tokens a pass, by heads on the target's hidden state.
//
// The readable references are decoding/loops/multi_token.py (`Blocks`) and models/heads.py (`Heads`).

#include <algorithm>
#include <vector>

#include "draft.h"
#include "native.h"
#include "reading.h"
#include "search.h"
#include "vectors.h"

namespace {

// `BatchState.commit` of one row, whose next n tokens are written.
void commit(const Tokens& t, const int64_t* tokens, long b, int64_t n) {
  int64_t length = 0;
  bool ended = false;
  while (length < n && !ended) ended = t.ends[tokens[t.count[b] + length++]];
  t.count[b] = std::min(t.count[b] + length, t.limit[b]);
  t.done[b] = ended || t.count[b] >= t.limit[b];
}

}  // namespace

extern "C" {

// Logits [n, rows, vocab] of states [rows, hidden].
void sst_heads(const Heads* heads, const float* states, int64_t rows, float* logits,
               int32_t threads) {
  const long size = rows * heads->project->in;
  std::vector<float> inner(heads->blocks ? padded(size, LANES) : 0);
  for (int64_t head = 0; head < heads->n; head++, logits += rows * heads->project->out) {
    if (heads->blocks) {
      sst_product(heads->blocks + head, states, rows, inner.data(), threads);
      silu(inner.data(), size);
      for (long i = 0; i < size; i++) inner[i] += states[i];
    }
    const float* read = heads->blocks ? inner.data() : states;
    sst_product(heads->project + head, read, rows, logits, threads);
  }
}

// Block after block: a pass over the last one, heads, a choice, the next tokens. Returns how many,
// or -1 where the cache is too short.
int64_t sst_blocks(const Reader* target, const Sampling* sampling, const Rows* rows,
                   const Tokens* batch, const Blocks* blocks) {
  const long n = rows->batch, vocab = rows->vocab, tokens = blocks->heads->n;
  Reading read(*target, *batch, *rows);
  std::vector<float> logits(tokens * n * vocab);
  const auto search =
      blocks->search ? path_search(*blocks->search, *rows, tokens) : nullptr;
  int64_t made = 0;
  for (; made < blocks->blocks; made++) {
    if (std::all_of(batch->done, batch->done + n, [](uint8_t done) { return done; })) break;
    if (!read.feed(batch->count, tokens, 1)) return -1;
    sst_heads(blocks->heads, read.states.data(), n, logits.data(), target->pass->threads);
    if (!search) independent(*sampling, *rows, *batch, NEXT, tokens, logits.data(), nullptr);
    for (long b = 0; b < n; b++) {
      if (batch->done[b]) continue;
      int64_t *row = batch->tokens + b * rows->capacity, begin = batch->count[b];
      if (search)
        blocks->dead[b] += search->block(&logits[b * vocab], n * vocab, rows->minimum[b] - begin,
                                         std::min<int64_t>(row[begin - 1], vocab - 1),
                                         uniforms_at(*batch, *rows, b, begin), batch->draws,
                                         row + begin);
      blocks->made[b]++;
      commit(*batch, row, b, tokens);
    }
  }
  return made;
}
}
