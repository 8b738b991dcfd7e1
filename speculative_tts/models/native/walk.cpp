// Tokens one by one without leaving: an utterance by the target alone, or a draft's lookahead.
//
// The readable references are decoding/loops.py (`steps`) and decoding/drafters/lm.py.

#include <algorithm>
#include <cstring>
#include <vector>

#include "native.h"

namespace {

void embed(const Walk& walk, int64_t id, long hidden, float* out) {
  const long row = walk.order ? walk.order[id] : id;
  if (!walk.bfloat16) {
    std::memcpy(out, (const float*)walk.embedding + row * hidden, hidden * sizeof(float));
    return;
  }
  const uint16_t* half = (const uint16_t*)walk.embedding + row * hidden;
  for (long i = 0; i < hidden; i++) {
    const uint32_t bits = (uint32_t)half[i] << 16;
    std::memcpy(out + i, &bits, sizeof(float));
  }
}

}  // namespace

extern "C" {

// `pass` and `rows` say where: inputs, start, fresh and hidden, logits and positions are made here.
// Returns the number of steps.
int64_t sst_walk(const Model* model, const Linear* head, const Pass* pass,
                 const Sampling* sampling, const Rows* rows, const Walk* walk) {
  const long batch = pass->batch, hidden = model->hidden, vocab = head->out;
  std::vector<float> inputs(batch * walk->behind * hidden), states(inputs.size());
  std::vector<float> last(batch * hidden), logits(batch * vocab), laws(batch * vocab);
  std::vector<int64_t> start(batch), at(walk->count, walk->count + batch), drawn(batch);
  std::vector<double> uniforms(batch);
  int64_t step = 0;
  for (; step < walk->steps; step++) {
    if (!walk->emit && step >= *std::max_element(walk->most, walk->most + batch)) break;
    if (walk->emit && !std::any_of(walk->most, walk->most + batch, [](int64_t n) { return n > 0; }))
      break;
    const long feed = step ? 1 : walk->behind;
    for (long b = 0; b < batch; b++) {
      const int64_t* tokens = walk->tokens + b * rows->capacity;
      for (long f = 0; f < feed; f++) {
        const int64_t id = tokens[std::max<int64_t>(0, at[b] - feed + f)];
        embed(*walk, std::min<int64_t>(id, vocab - 1), hidden, &inputs[(b * feed + f) * hidden]);
      }
      start[b] = walk->lengths[b] + at[b] - feed;
      uniforms[b] = walk->uniforms[(b * rows->capacity + at[b]) * walk->draws + walk->purpose];
    }
    Pass now = *pass;
    now.inputs = inputs.data(), now.start = start.data(), now.hidden = states.data();
    now.fresh = (int32_t)feed;
    if (sst_extend(model, &now) > now.room) return -1;
    for (long b = 0; b < batch; b++)
      std::memcpy(&last[b * hidden], &states[((b + 1) * feed - 1) * hidden],
                  hidden * sizeof(float));
    sst_product(head, last.data(), batch, logits.data(), pass->threads);
    Rows here = *rows;
    here.logits = logits.data(), here.positions = at.data(), here.history = walk->tokens;
    sst_laws(sampling, &here, laws.data());
    sst_draw(laws.data(), batch, vocab, uniforms.data(), drawn.data());
    for (long b = 0; b < batch; b++) {
      if (walk->laws)
        std::memcpy(walk->laws + (b * walk->steps + step) * vocab, &laws[b * vocab],
                    vocab * sizeof(float));
      walk->tokens[b * rows->capacity + at[b]] = drawn[b];
      const bool ended = walk->ends[drawn[b]];
      if (!walk->emit) {
        at[b]++;
        if (ended) walk->most[b] = std::min(walk->most[b], step + 1);
      } else if (walk->most[b] > 0) {
        walk->count[b] = ++at[b];
        walk->most[b] = ended ? 0 : walk->most[b] - 1;
      }
    }
  }
  return step;
}
}
