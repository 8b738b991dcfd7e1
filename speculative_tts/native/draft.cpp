// Drafts of a round by a second model, by heads or a recurrent layer on the target's own states, or
// by look-up in what was said.
//
// The readable references are decoding/drafters/lm.py, heads.py, recurrent.py and lookup.py,
// models/recurrent.py and `IndependentHeads` of decoding/blocks/choosers.py.

#include "draft.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "logits.h"
#include "reading.h"
#include "search.h"
#include "vectors.h"

namespace {

// Tokens up to the first stop id, that one too, or `most`.
int64_t up_to_stop(const Tokens& t, const int64_t* tokens, int64_t most) {
  int64_t length = 0;
  while (length < most && !t.ends[tokens[length++]]) {
  }
  return length;
}

// The token of each row at its place, by the sampler, from logits [batch, vocab]; places go on by
// one. Laws are kept `stride` apart unless null.
void next(const Sampling& sampling, const Rows& rows, const Tokens& t, int32_t purpose,
          const float* logits, std::vector<int64_t>& at, float* kept, long stride) {
  const long vocab = rows.vocab;
  std::vector<float> laws(rows.batch * vocab);
  Rows here = rows;
  here.positions = at.data(), here.fresh = 1, here.logits = logits;
  sst_laws(&sampling, &here, laws.data());
  for (long b = 0; b < rows.batch; b++) {
    const float* law = &laws[b * vocab];
    int64_t* token = t.tokens + b * rows.capacity + at[b];
    sst_draw(law, 1, vocab, &uniforms_at(t, rows, b, at[b])[purpose], token);
    if (kept) std::memcpy(kept + b * stride, law, vocab * sizeof(float));
    at[b]++;
  }
}

class ByModel : public Drafting {
 public:
  ByModel(const Drafter& d, const Sampling& sampling, const Rows& rows, const Tokens& batch,
          Rounds& rounds)
      : reader(*d.reader), doubt(d.doubt), sampling(sampling), rows(rows), batch(batch),
        rounds(rounds) {}

  int64_t propose(int64_t* drafted, float* laws) override {
    const Walk walk{DRAFT, rounds.behind, rounds.lookahead, drafted, laws, doubt};
    rounds.behind = 1;
    return sst_walk(&reader, &sampling, &rows, &batch, &walk);
  }

  void saw(long, bool all_accepted, const float*) override {
    if (all_accepted) rounds.behind = 2;  // its last token is not in yet
  }

 private:
  const Reader& reader;
  const double doubt;
  const Sampling& sampling;
  const Rows& rows;
  const Tokens& batch;
  Rounds& rounds;
};

class ByHeads : public Drafting {  // head 0 said the token that leads the block
 public:
  ByHeads(const Drafter& d, const Sampling& sampling, const Rows& rows, const Tokens& batch,
          long lookahead, int32_t threads)
      : heads{d.heads->project + 1, d.heads->blocks ? d.heads->blocks + 1 : nullptr, lookahead},
        states(d.states), hidden(heads.project->in), threads(threads), sampling(sampling), rows(rows), batch(batch),
        logits(lookahead * rows.batch * rows.vocab) {
    if (d.search) paths = path_search(*d.search, rows, lookahead);
  }

  int64_t propose(int64_t* drafted, float* laws) override {
    const long n = rows.batch, vocab = rows.vocab;
    sst_heads(&heads, states, n, logits.data(), threads);
    if (!paths) independent(sampling, rows, batch, DRAFT, heads.n, logits.data(), laws);
    int64_t most = 0;
    for (long b = 0; b < n; b++) {
      int64_t* tokens = batch.tokens + b * rows.capacity + batch.count[b];
      if (batch.done[b]) continue;
      if (paths)
        paths->draft(&logits[b * vocab], n * vocab, rows.minimum[b] - batch.count[b],
                     std::min<int64_t>(tokens[-1], vocab - 1),
                     uniforms_at(batch, rows, b, batch.count[b]), batch.draws, tokens,
                     laws + b * heads.n * vocab);
      most = std::max(most, drafted[b] = up_to_stop(batch, tokens, drafted[b]));
    }
    return most;
  }

  void saw(long b, bool, const float* state) override {
    std::memcpy(states + b * hidden, state, hidden * sizeof(float));
  }

 private:
  const Heads heads;
  float* states;
  const long hidden;
  const int32_t threads;
  const Sampling& sampling;
  const Rows& rows;
  const Tokens& batch;
  std::vector<float> logits;
  std::unique_ptr<Paths> paths;
};

class ByLayer : public Drafting {
 public:
  ByLayer(const Drafter& d, const Reader& target, const Sampling& sampling, const Rows& rows,
          const Tokens& batch, long lookahead)
      : layer(*d.recurrent), states(d.states), hidden(layer.out->out), lookahead(lookahead),
        target(target), sampling(sampling), rows(rows), batch(batch),
        inputs(rows.batch * hidden), inner(inputs), few(layer.few ? rows.batch * layer.head->out : 0),
        logits(rows.batch * rows.vocab, NONE) {}

  int64_t propose(int64_t* drafted, float* laws) override {
    const long n = rows.batch, vocab = rows.vocab;
    const int64_t most = *std::max_element(drafted, drafted + n);
    const int32_t threads = target.pass->threads;
    std::vector<int64_t> at(batch.count, batch.count + n);
    inner.assign(states, states + n * hidden);
    for (int64_t step = 0; step < most; step++) {
      for (long b = 0; b < n; b++) {
        const int64_t id = batch.tokens[b * rows.capacity + at[b] - 1];
        embed(target, std::min<int64_t>(id, vocab - 1), b, at[b] - 1, &inputs[b * hidden]);
      }
      sst_recurrent(&layer, inputs.data(), n, inner.data(), threads);
      said(n, vocab, threads);
      next(sampling, rows, batch, DRAFT, logits.data(), at, laws + step * vocab,
           lookahead * vocab);
    }
    for (long b = 0; b < n; b++)
      drafted[b] = up_to_stop(batch, batch.tokens + b * rows.capacity + batch.count[b], drafted[b]);
    return most;
  }

  void saw(long b, bool, const float* state) override {
    std::memcpy(states + b * hidden, state, hidden * sizeof(float));
  }

 private:
  void said(long n, long vocab, int32_t threads) {  // logits of all ids
    if (!layer.few) return sst_product(layer.head, inner.data(), n, logits.data(), threads);
    const long count = layer.head->out;
    sst_product(layer.head, inner.data(), n, few.data(), threads);
    for (long b = 0; b < n; b++)
      for (long i = 0; i < count; i++) logits[b * vocab + layer.few[i]] = few[b * count + i];
  }

  const Recurrent& layer;
  float* states;
  const long hidden, lookahead;
  const Reader& target;
  const Sampling& sampling;
  const Rows& rows;
  const Tokens& batch;
  std::vector<float> inputs, inner, few, logits;
};

class ByLookup : public Drafting {  // what followed the longest match, of those the newest
 public:
  ByLookup(const Lookup& past, const Rows& rows, const Tokens& batch, long lookahead)
      : past(past), rows(rows), batch(batch), lookahead(lookahead) {}

  int64_t propose(int64_t* drafted, float* laws) override {
    int64_t most = 0;
    for (long b = 0; b < rows.batch; b++) {
      drafted[b] = copied(b, drafted[b], laws + b * lookahead * rows.vocab);
      most = std::max(most, drafted[b]);
    }
    return most;
  }

  void saw(long, bool, const float*) override {}

 private:
  // Of the prompt's codes, then the row's own tokens.
  int64_t said(long b, int64_t at) const {
    return at < past.before ? past.heard[b * past.before + at]
                            : batch.tokens[b * rows.capacity + at - past.before];
  }

  // Where the longest match with the tokens up to `newest` ends; -1 without one.
  int64_t match(long b, int64_t newest) const {
    int64_t best = past.shortest - 1, end = -1;
    for (int64_t place = newest - 1; place >= 0 && best < past.longest; place--) {
      int64_t run = 0;
      while (run < past.longest && run <= place && said(b, newest - run) >= 0 &&
             said(b, place - run) == said(b, newest - run))
        run++;
      if (run > best) best = run, end = place;
    }
    return end;
  }

  int64_t copied(long b, int64_t room, float* laws) {
    const int64_t newest = past.before + batch.count[b] - 1, end = room ? match(b, newest) : -1;
    if (end < 0) return 0;
    int64_t* tokens = batch.tokens + b * rows.capacity + batch.count[b];
    for (int64_t i = 0; i < room; i++)  // one that reaches the newest token goes on with itself
      tokens[i] = std::min<int64_t>(said(b, end + 1 + i % (newest - end)), rows.vocab - 1);
    const int64_t length = up_to_stop(batch, tokens, room);
    std::fill(laws, laws + length * rows.vocab, 0.f);
    for (int64_t i = 0; i < length; i++) laws[i * rows.vocab + tokens[i]] = 1;
    return length;
  }

  const Lookup& past;
  const Rows& rows;
  const Tokens& batch;
  const long lookahead;
};

}  // namespace

std::unique_ptr<Drafting> drafting(const Drafter& d, const Reader& target,
                                   const Sampling& sampling, const Rows& rows, const Tokens& batch,
                                   Rounds& rounds) {
  if (d.heads)
    return std::make_unique<ByHeads>(d, sampling, rows, batch, rounds.lookahead,
                                     target.pass->threads);
  if (d.recurrent)
    return std::make_unique<ByLayer>(d, target, sampling, rows, batch, rounds.lookahead);
  if (d.lookup) return std::make_unique<ByLookup>(*d.lookup, rows, batch, rounds.lookahead);
  return std::make_unique<ByModel>(d, sampling, rows, batch, rounds);
}

void independent(const Sampling& sampling, const Rows& rows, const Tokens& t, int32_t purpose,
                 int64_t n, const float* logits, float* kept) {
  std::vector<int64_t> at(t.count, t.count + rows.batch);
  for (int64_t head = 0; head < n; head++)
    next(sampling, rows, t, purpose, logits + head * rows.batch * rows.vocab, at,
         kept ? kept + head * rows.vocab : nullptr, n * rows.vocab);
}

extern "C" void sst_recurrent(const Recurrent* layer, const float* inputs, int64_t rows,
                              float* states, int32_t threads) {
  const long hidden = layer->out->out, width = layer->out->in;
  std::vector<float> both(rows * 2 * hidden), inner(padded(rows * width, LANES)),
      more(rows * hidden);
  for (long r = 0; r < rows; r++)
    std::memcpy(&both[(2 * r + 1) * hidden], inputs + r * hidden, hidden * sizeof(float));
  for (long b = 0; b < layer->blocks; b++) {
    for (long r = 0; r < rows; r++)
      std::memcpy(&both[2 * r * hidden], states + r * hidden, hidden * sizeof(float));
    sst_product(layer->inner + b, both.data(), rows, inner.data(), threads);
    silu(inner.data(), rows * width);
    sst_product(layer->out + b, inner.data(), rows, more.data(), threads);
    for (long i = 0; i < rows * hidden; i++) states[i] += more[i];
  }
}
