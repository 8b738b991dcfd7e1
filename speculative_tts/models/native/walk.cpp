// Tokens without leaving: an utterance by the target alone, a draft's lookahead, whole rounds of
// speculation.
//
// The readable references are decoding/loops.py (`Autoregression`), decoding/drafters/lm.py and
// decoding/speculation.py (`Rounds.step`).

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "draft.h"
#include "native.h"
#include "reading.h"
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

// The verification of one row, whose logits are those of `rows` and whose drafted tokens' laws are
// `draft`, and what it emits. Returns how many of `drafted` were accepted.
int64_t verify(const Sampling& sampling, const Rows& rows, const Tokens& t, const Rounds& rounds,
               Judge& rule, long b, int64_t drafted, const float* draft, std::vector<float>& q,
               std::vector<float>& next, Laps& laps) {
  const long vocab = rows.vocab;
  int64_t *tokens = t.tokens + b * rows.capacity, begin = t.count[b], accepted = 0;
  Rows one = rows;  // a law at a time: those behind a rejection are not needed
  one.batch = one.fresh = 1;
  one.minimum += b, one.history += b * rows.capacity, one.logits += b * rows.fresh * vocab;
  for (;; accepted++, one.logits += vocab, draft += vocab) {
    const int64_t place = begin + accepted;
    one.positions = &place;
    sst_laws(&sampling, &one, q.data());
    laps.end(Laps::VERIFYING);
    if (accepted == drafted) break;
    if (rounds.target)
      std::copy(q.begin(), q.end(), rounds.target + (b * rounds.lookahead + accepted) * vocab);
    const int64_t id = std::min<int64_t>(tokens[place], vocab - 1);
    if (!rule.accepts(id, uniforms_at(t, rows, b, place) + ACCEPT, q.data(), draft)) break;
    laps.end(Laps::ACCEPTING);
  }
  const bool rejected = accepted < drafted;
  const bool fallback = following(rule, vocab, q.data(), rejected ? draft : nullptr, next.data());
  int64_t token;
  sst_draw(next.data(), 1, vocab, &uniforms_at(t, rows, b, begin + accepted)[NEXT], &token);
  const bool bare = emit(t, tokens, b, accepted, token);
  int64_t* counts = rounds.counts + b * (4 + 2 * rounds.lookahead);
  counts[0]++, counts[1] += rejected, counts[2] += !rejected && !bare, counts[3] += fallback;
  for (int64_t d = 0; d < drafted; d++) counts[4 + d]++;
  for (int64_t d = 0; d < accepted; d++) counts[4 + rounds.lookahead + d]++;
  return accepted;
}

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
      if (batch->ends[token]) walk->most[b] = std::min(walk->most[b], step + 1);
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
  const auto rule = judge(*rounds->rule, vocab, target->pass->threads);
  const auto draft = drafting(*drafter, *target, *sampling, *rows, *batch, *rounds);
  std::vector<int64_t> drafted(n), at(n);
  std::vector<float> own(rounds->draft ? 0 : n * lookahead * vocab), q(vocab), next(vocab);
  float* laws = rounds->draft ? rounds->draft : own.data();
  Laps laps(rounds->seconds);
  int64_t made = 0;
  for (; made < rounds->rounds; made++) {
    if (std::all_of(batch->done, batch->done + n, [](uint8_t done) { return done; })) break;
    for (long b = 0; b < n; b++) {
      const int64_t room = std::min<int64_t>(batch->limit[b] - batch->count[b] - 1, lookahead);
      drafted[b] = batch->done[b] ? 0 : std::max<int64_t>(0, room);
    }
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
      const int64_t accepted =
          verify(*sampling, here, *batch, *rounds, *rule, b, drafted[b], drafts, q, next, laps);
      draft->saw(b, accepted && accepted == drafted[b],
                 &read.states[(b * (number + 1) + accepted) * target->model->hidden]);
      laps.end(Laps::ACCEPTING);
    }
  }
  return made;
}
}
