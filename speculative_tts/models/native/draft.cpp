// Drafts of a round by a second model, or by heads on the target's own states.
//
// The readable references are decoding/drafters/lm.py, decoding/drafters/heads.py and
// `IndependentHeads` of decoding/multi_token.py.

#include "draft.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "reading.h"
#include "search.h"

namespace {

class ByModel : public Drafting {
 public:
  ByModel(const Reader& reader, const Sampling& sampling, const Rows& rows, const Tokens& batch,
          Rounds& rounds)
      : reader(reader), sampling(sampling), rows(rows), batch(batch), rounds(rounds) {}

  int64_t propose(int64_t* drafted, float* laws) override {
    const Walk walk{DRAFT, rounds.behind, 0, 0, rounds.lookahead, drafted, laws};
    rounds.behind = 1;
    return sst_walk(&reader, &sampling, &rows, &batch, &walk);
  }

  void saw(long, bool all_accepted, const float*) override {
    if (all_accepted) rounds.behind = 2;  // its last token is not in yet
  }

 private:
  const Reader& reader;
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
      int64_t *tokens = batch.tokens + b * rows.capacity + batch.count[b], length = 0;
      if (batch.done[b]) continue;
      if (paths)
        paths->draft(&logits[b * vocab], n * vocab, rows.minimum[b] - batch.count[b],
                     std::min<int64_t>(tokens[-1], vocab - 1),
                     uniforms_at(batch, rows, b, batch.count[b]), batch.draws, tokens,
                     laws + b * heads.n * vocab);
      while (length < drafted[b] && !batch.ends[tokens[length++]]) {
      }
      most = std::max(most, drafted[b] = length);
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

}  // namespace

std::unique_ptr<Drafting> drafting(const Drafter& d, const Sampling& sampling, const Rows& rows,
                                   const Tokens& batch, Rounds& rounds, int32_t threads) {
  if (d.heads)
    return std::make_unique<ByHeads>(d, sampling, rows, batch, rounds.lookahead, threads);
  return std::make_unique<ByModel>(*d.reader, sampling, rows, batch, rounds);
}

void independent(const Sampling& sampling, const Rows& rows, const Tokens& t, int32_t purpose,
                 int64_t n, const float* logits, float* kept) {
  const long batch = rows.batch, vocab = rows.vocab;
  std::vector<float> laws(batch * vocab);
  std::vector<int64_t> at(t.count, t.count + batch);
  Rows here = rows;
  here.positions = at.data(), here.fresh = 1;
  for (int64_t head = 0; head < n; head++) {
    here.logits = logits + head * batch * vocab;
    sst_laws(&sampling, &here, laws.data());
    for (long b = 0; b < batch; b++) {
      const float* law = &laws[b * vocab];
      int64_t* token = t.tokens + b * rows.capacity + at[b];
      sst_draw(law, 1, vocab, &uniforms_at(t, rows, b, at[b])[purpose], token);
      if (kept) std::memcpy(kept + (b * n + head) * vocab, law, vocab * sizeof(float));
      at[b]++;
    }
  }
}
