// Tokens without leaving: an utterance by the target alone, a draft's lookahead, whole rounds of
// speculation.
//
// The readable references are decoding/loops/one_by_one.py (`Autoregression`), decoding/drafters/lm.py and
// decoding/loops/speculation.py (`Rounds.step`).

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "draft.h"
#include "native.h"
#include "reading.h"
#include "vectors.h"
#include "verify.h"

namespace {

// Clocks the parts of rounds: some 30 ns a lap.
class Laps {
 public:
  explicit Laps(double* seconds) : seconds(seconds), last(Clock::now()) {}

  enum Part { DRAFTING, VERIFYING, ACCEPTING };

  // All since the lap before it.
  void end(Part part) {
    const auto now = Clock::now();
    seconds[part] += std::chrono::duration<double>(now - last).count(), last = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double* const seconds;
  Clock::time_point last;
};

// `BatchState.emit` of one row: returns whether the token was dropped behind a stop id.
bool emit(const Tokens& t, int64_t* tokens, long b, int64_t accepted, int64_t token) {
  const int64_t end = t.count[b] + accepted;
  const bool ended = accepted > 0 && t.ends[tokens[end - 1]];
  tokens[end] = token;
  t.count[b] = end + !ended;
  t.done[b] = ended || t.ends[token] || t.count[b] >= t.limit[b];
  return ended;
}

// `BatchState.renew`.
void renew(const Tokens& t, const Rows& rows) {
  for (long b = 0; b < rows.batch && t.again; b++) {
    if (t.done[b]) continue;
    const double* own = t.again + (b * rows.capacity + t.count[b]) * t.ahead * t.draws;
    for (int64_t i = 0; i < t.ahead; i++)
      std::memcpy(uniforms_at(t, rows, b, t.count[b] + i), own + i * t.draws, NEXT * sizeof(double));
  }
}

double entropy(const float* law, long n) {  // nats
  double sum = 0;
  for (long i = 0; i < n; i++)
    if (law[i] > 0) sum -= law[i] * std::log((double)law[i]);
  return sum;
}

constexpr double LEAST = 1e-30;  // as in decoding/rules/block.py

// Drafts of one row against the target's logits, and what the row emits.
class Verifier {
 public:
  Verifier(const Sampling& sampling, const Tokens& batch, const Rounds& rounds, long vocab,
           int32_t threads, Laps& laps)
      : sampling(sampling), t(batch), rounds(rounds), vocab(vocab), laps(laps),
        rule(judge(*rounds.rule, vocab, threads)), weights(rounds.lookahead + 1, 1.0),
        laws((rounds.rule->block ? rounds.lookahead + 1 : 1) * vocab), scaled(vocab), next(vocab) {}

  // The row's logits are those of `rows`, its drafted tokens' laws `draft`. Returns how many of
  // `drafted` were accepted.
  int64_t operator()(const Rows& rows, long b, int64_t drafted, const float* draft) {
    one = rows, row = b;
    one.batch = one.fresh = 1;
    one.minimum += b, one.history += b * rows.capacity, one.prompted += b * vocab;
    one.logits += b * rows.fresh * vocab;
    tokens = t.tokens + b * rows.capacity, begin = t.count[b];
    uniforms = uniforms_at(t, rows, b, begin);
    const bool block = rounds.rule->block;
    const int64_t accepted = block ? at_once(drafted, draft) : in_turn(drafted, draft);
    const bool rejected = accepted < drafted;
    const float* rest = draft + accepted * vocab;
    if (block && rejected) rest = weighed(rest, accepted);
    const float* q = &laws[block ? accepted * vocab : 0];
    const bool fallback = following(*rule, vocab, q, rejected ? rest : nullptr, next.data());
    int64_t token;
    sst_draw(next.data(), 1, vocab, &uniforms[accepted * t.draws + NEXT], &token);
    const bool bare = emit(t, tokens, b, accepted, token);
    int64_t* counts = rounds.counts + b * (4 + 2 * rounds.lookahead);
    counts[0]++, counts[1] += rejected, counts[2] += !rejected && !bare, counts[3] += fallback;
    for (int64_t d = 0; d < drafted; d++) counts[4 + d]++;
    for (int64_t d = 0; d < accepted; d++) counts[4 + rounds.lookahead + d]++;
    return accepted;
  }

 private:
  // The target's behind so many of the drafted tokens.
  void law(int64_t behind, float* out) {
    const int64_t place = begin + behind;
    one.positions = &place;
    sst_laws(&sampling, &one, out);
    one.logits += vocab;
    laps.end(Laps::VERIFYING);
  }

  // One after the other; a law at a time: those behind a rejection are not needed.
  int64_t in_turn(int64_t drafted, const float* draft) {
    float* q = laws.data();
    for (int64_t n = 0;; n++, draft += vocab) {
      law(n, q);
      if (n == drafted) return n;
      if (rounds.target)
        std::copy(q, q + vocab, rounds.target + (row * rounds.lookahead + n) * vocab);
      if (!rule->accepts(id(n), &uniforms[n * t.draws + ACCEPT], q, draft)) return n;
      laps.end(Laps::ACCEPTING);
    }
  }

  // As `BlockRule.judge`: the longest prefix that passes.
  int64_t at_once(int64_t drafted, const float* draft) {
    for (int64_t n = 0; n <= drafted; n++) law(n, &laws[n * vocab]);
    for (int64_t n = 0; n < drafted; n++) {
      const double* own = &uniforms[n * t.draws + ACCEPT];
      const double ratio = rule->ratio(id(n), own, &laws[n * vocab], draft + n * vocab);
      weights[n + 1] = std::min(std::max(weights[n] * ratio, LEAST), 1.0);
    }
    int64_t n = drafted;
    while (n > 0 && !(uniforms[(n - 1) * t.draws + ACCEPT] < chance(n, drafted, draft))) n--;
    return n;
  }

  double chance(int64_t n, int64_t drafted, const float* draft) {
    if (n == drafted) return weights[n];
    rule->residual(&laws[n * vocab], weighed(draft + n * vocab, n), next.data());
    const double left = weights[n] * total(next.data(), vocab);
    const double below = left + 1 - weights[n];
    return below > 0 ? left / below : 1;
  }

  const float* weighed(const float* p, int64_t n) {
    const float by = (float)weights[n];
    for (long i = 0; i < vocab; i++) scaled[i] = p[i] / by;
    return scaled.data();
  }

  int64_t id(int64_t n) const { return std::min<int64_t>(tokens[begin + n], vocab - 1); }

  const Sampling& sampling;
  const Tokens& t;
  const Rounds& rounds;
  const long vocab;
  Laps& laps;
  const std::unique_ptr<Judge> rule;
  std::vector<double> weights;
  std::vector<float> laws, scaled, next;
  Rows one;
  long row = 0;
  int64_t *tokens = nullptr, begin = 0;
  const double* uniforms = nullptr;
};

}  // namespace

extern "C" {

// The next token of each row by the law of its logits; rows that are done stay as they are.
void sst_emit(const Sampling* sampling, const Rows* rows, const Tokens* batch) {
  std::vector<float> laws(rows->batch * rows->vocab);
  Rows here = *rows;
  here.positions = batch->count, here.fresh = 1;
  sst_laws(sampling, &here, laws.data());
  for (long b = 0; b < rows->batch; b++) {
    int64_t token;
    const double* uniform = uniforms_at(*batch, *rows, b, batch->count[b]) + NEXT;
    sst_draw(&laws[b * rows->vocab], 1, rows->vocab, uniform, &token);
    if (!batch->done[b]) emit(*batch, batch->tokens + b * rows->capacity, b, 0, token);
  }
}

// Returns the number of steps, or -1 where the cache is too short.
int64_t sst_walk(const Reader* reader, const Sampling* sampling, const Rows* rows,
                 const Tokens* batch, const Walk* walk) {
  const long n = rows->batch, vocab = rows->vocab;
  Reading read(*reader, *batch, *rows);
  std::vector<float> laws(n * vocab);
  std::vector<int64_t> at(batch->count, batch->count + n);
  int64_t step = 0;
  for (; step < walk->steps; step++) {
    bool wanted = false;
    for (long b = 0; b < n; b++) wanted |= walk->most ? step < walk->most[b] : !batch->done[b];
    if (!wanted) break;
    const int64_t* places = walk->most ? at.data() : batch->count;
    if (!read(places, step ? 1 : walk->behind, 1)) return -1;
    Rows here = *rows;
    here.logits = read.logits.data(), here.positions = places, here.fresh = 1;
    if (!walk->most) {
      sst_emit(sampling, &here, batch);
      continue;
    }
    sst_laws(sampling, &here, laws.data());
    for (long b = 0; b < n; b++) {
      const float* law = &laws[b * vocab];
      int64_t token;
      sst_draw(law, 1, vocab, &uniforms_at(*batch, *rows, b, at[b])[walk->purpose], &token);
      if (walk->laws)
        std::memcpy(walk->laws + (b * walk->steps + step) * vocab, law, vocab * sizeof(float));
      batch->tokens[b * rows->capacity + at[b]++] = token;
      const bool doubtful = walk->doubt >= 0 && entropy(law, vocab) > walk->doubt;
      if (batch->ends[token] || doubtful) walk->most[b] = std::min(walk->most[b], step + 1);
    }
  }
  return step;
}

// Round after round: draft, verify, accept, append. Returns how many, or -1 where a cache is too
// short.
int64_t sst_rounds(const Reader* target, const Drafter* drafter, const Sampling* sampling,
                   const Rows* rows, const Tokens* batch, Rounds* rounds) {
  const long n = rows->batch, vocab = rows->vocab, lookahead = rounds->lookahead;
  Reading read(*target, *batch, *rows);
  const auto draft = drafting(*drafter, *target, *sampling, *rows, *batch, *rounds);
  std::vector<int64_t> drafted(n), at(n);
  std::vector<float> own(rounds->draft ? 0 : n * lookahead * vocab);
  float* laws = rounds->draft ? rounds->draft : own.data();
  Laps laps(rounds->seconds);
  Verifier verify(*sampling, *batch, *rounds, vocab, target->pass->threads, laps);
  int64_t made = 0;
  for (; made < rounds->rounds; made++) {
    if (std::all_of(batch->done, batch->done + n, [](uint8_t done) { return done; })) break;
    for (long b = 0; b < n; b++) {
      const int64_t room = std::min<int64_t>(batch->limit[b] - batch->count[b] - 1, lookahead);
      drafted[b] = batch->done[b] ? 0 : std::max<int64_t>(0, room);
    }
    renew(*batch, *rows);
    const int64_t number = draft->propose(drafted.data(), laws);
    laps.end(Laps::DRAFTING);
    for (long b = 0; b < n; b++) at[b] = batch->count[b] + number;
    if (number < 0 || !read(at.data(), number + 1, number + 1)) return -1;
    Rows here = *rows;
    here.logits = read.logits.data(), here.fresh = number + 1;
    laps.end(Laps::VERIFYING);
    for (long b = 0; b < n; b++) {
      if (batch->done[b]) continue;
      const float* drafts = laws + b * lookahead * vocab;
      const int64_t accepted = verify(here, b, drafted[b], drafts);
      draft->saw(b, accepted && accepted == drafted[b],
                 &read.states[(b * (number + 1) + accepted) * target->model->hidden]);
      laps.end(Laps::ACCEPTING);
    }
  }
  return made;
}
}
