// Path search over the candidates of n heads.
//
// The readable references are decoding/blocks/viterbi.py and `ViterbiHeads` of decoding/loops/multi_token.py:
// sums and maxima in the same order, so that best paths are the same bit for bit; masses of drawn
// ones agree to 1e-6. States are kept in rows of `stride`, impossible behind the last one.

#include "search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "logits.h"

namespace {

float largest(const float* x, long n) {  // n: a multiple of BLOCK
  Vec most = load(x);
  for (long i = LANES; i < n; i += LANES) {
    Vec v = load(x + i);
    most = v > most ? v : most;
  }
  float out = most[0];
  for (int j = 1; j < LANES; j++) out = std::max(out, most[j]);
  return out;
}

class PathSearch : public Paths {
 public:
  PathSearch(const Search& search, const Rows& rows, int64_t n)
      : s(search), rows(rows), n(n), vocab(rows.vocab), k(std::min(search.top_k, rows.vocab)),
        given(n), scores(n * vocab), own(n * k), marked(vocab) {
    for (int64_t i = 0; i < vocab; i++)
      if (rows.stops[i]) stops.push_back(i);
  }

  bool block(const float* logits, long apart, int64_t early, int64_t last,
             const double* uniforms, long draws, int64_t* tokens) override {
    for (long t = 0; t < n; t++) read(t, logits + t * apart, t < early, uniforms[ACCEPT]);
    gather();
    if (s.boundary) boundary((int32_t)last);
    for (long t = 1; t < n; t++)
      for (long j = 0; j < m; j++)
        reached[t * stride + j] =
            (s.sample ? into_mass(t, j) : into_best(t, j)) + at[t * stride + j];
    const float* end = &reached[(n - 1) * stride];
    const bool dead = largest(end, stride) == NONE;
    long state = 0;
    for (long t = n - 1; t >= 0; t--) {
      const double uniform = uniforms[t * draws + NEXT];
      if (dead)
        state = likeliest_state(&at[t * stride]);
      else if (t < n - 1)
        state = s.sample ? drawn_before(t, state, uniform) : likeliest_before(t, state);
      else if (s.sample)
        masses.assign(end, end + stride), state = drawn(uniform);
      else
        state = likeliest_state(end);
      tokens[t] = given[t].ends ? given[t].end : ids[(s.joint ? 0 : t * m) + state];
      if (!given[t].lawful) tokens[t] = vocab;
    }
    return dead;
  }

  void draft(const float* logits, long apart, int64_t early, int64_t last, const double* uniforms,
             long draws, int64_t* tokens, float* laws) override {
    if (!s.sample) {
      block(logits, apart, early, last, uniforms, draws, tokens);
      for (long t = 0; t < n; t++, laws += vocab) {
        std::fill(laws, laws + vocab, tokens[t] == vocab ? NO_LAW : 0);
        if (tokens[t] < vocab) laws[tokens[t]] = 1;
      }
      return;
    }
    for (long t = 0; t < n; t++) read(t, logits + t * apart, t < early, 0);
    gather();
    if (s.boundary) boundary((int32_t)last);
    pass_messages();
    float ended = 0;
    for (long t = 0, state = 0; t < n; t++, laws += vocab) {
      const float before = ended;
      ended = std::max(ended, given[t].over);
      weigh(t, state);
      law(t, before < 1 ? (ended - before) / (1 - before) : 1, laws);
      sst_draw(laws, 1, vocab, &uniforms[t * draws + DRAFT], &tokens[t]);
      const int32_t* of = &ids[s.joint ? 0 : t * m];
      for (state = m - 1; state > 0; state--)  // any where the token is no candidate: 0
        if (of[state] == tokens[t] && masses[state] > 0) break;
    }
  }

 private:
  struct Given {  // what a head says by itself
    bool lawful, ends;
    float over;   // how probable it is that the utterance has ended by its token
    int64_t end;  // its likeliest stop id, -1 without any
  };

  // What head t says: its scores without stop ids, its candidates, and whether the utterance has
  // ended by its token; `ends` is the uniform for that.
  void read(long t, const float* logits, bool early, double ends) {
    float* x = &scores[t * vocab];
    std::memcpy(x, logits, vocab * sizeof(float));
    if (early)
      for (int64_t stop : stops) x[stop] = NONE;
    if (s.temperature != 1)
      for (long i = 0; i < vocab; i++) x[i] /= s.temperature;
    const long top = likeliest(x, vocab);
    Given& head = given[t];
    head = {top >= 0, false, 0, -1};
    if (!head.lawful) std::fill(x, x + vocab, NONE);
    for (int64_t stop : stops)
      if (head.end < 0 || x[stop] > x[head.end]) head.end = stop;
    if (s.sample) best.find(x, vocab, (int)k);
    if (s.sample && head.lawful) {
      float over = 0, sum = 0;
      for (long i = 0; i < k; i++) sum += std::exp(best.value[i] - best.value[0]);
      for (long i = 0; i < k; i++)
        if (rows.stops[best.id[i]]) over += std::exp(best.value[i] - best.value[0]) / sum;
      if (s.end_when_likeliest && rows.stops[best.id[0]]) over = 1;
      head.over = std::min(over, 1.f);
      head.ends = !stops.empty() && ends >= 1 - head.over;
    } else {
      head.ends = head.lawful && rows.stops[top];
    }
    for (int64_t stop : stops) x[stop] = NONE;
    if (!s.sample) best.find(x, vocab, (int)k);
    std::copy_n(best.id.begin(), k, &own[t * k]);
  }

  // The lattice: candidates, their scores, and the transitions between them.
  void gather() {
    if (s.joint) {
      for (int32_t id : own) marked[id] = 1;
      ids.clear();
      for (long i = 0; i < vocab; i++)
        if (marked[i]) ids.push_back((int32_t)i), marked[i] = 0;
      m = (long)ids.size();
    } else {
      ids = own, m = k;
    }
    stride = padded(m, BLOCK);
    at.assign(n * stride, NONE), reached.assign(n * stride, NONE);
    for (long t = 0; t < n; t++)
      for (long j = 0; j < m; j++)
        at[t * stride + j] = scores[t * vocab + ids[(s.joint ? 0 : t * m) + j]];
    std::copy_n(at.begin(), stride, reached.begin());
    const long tables = n == 1 ? 0 : s.joint ? 1 : n - 1;
    steps.assign(tables * m * stride, NONE);
    for (long t = 0; t < tables; t++)
      transitions(&ids[t * m], m, &ids[s.joint ? 0 : (t + 1) * m], stride, &steps[t * m * stride]);
  }

  // Logarithms to each of m codes from each of some before: out [m, apart].
  void transitions(const int32_t* before, long number, const int32_t* after, long apart,
                   float* out) const {
    const Transitions& q = *s.transitions;
    for (long j = 0; q.table && j < m; j++)
      for (long i = 0; i < number; i++)
        out[j * apart + i] = q.table[after[j] * q.ids + before[i]];
    for (long i = 0; !q.table && i < number; i++) {
      const int64_t from = before[i] * q.ids;
      const int64_t* begin = std::lower_bound(q.keys, q.keys + q.pairs, from);
      const int64_t* end = std::lower_bound(begin, q.keys + q.pairs, from + q.ids);
      for (long j = 0; j < m; j++) {
        const int64_t* found = std::lower_bound(begin, end, from + after[j]);
        const bool seen = found != end && *found == from + after[j];
        out[j * apart + i] = seen ? q.seen[found - q.keys] : q.column[after[j]] + q.row[before[i]];
      }
    }
  }

  // The step from the token before the block counts too.
  void boundary(int32_t last) {
    masses.resize(m);
    transitions(&last, 1, ids.data(), 1, masses.data());
    for (long j = 0; j < m; j++) reached[j] += masses[j];
  }

  // The best score of a path that goes on to a state of position t.
  float into_best(long t, long state) const {
    const float *own = step(t) + state * stride, *before = &reached[(t - 1) * stride];
    Vec most = load(own) + load(before);
    for (long i = LANES; i < stride; i += LANES) {
      Vec v = load(own + i) + load(before + i);
      most = v > most ? v : most;
    }
    float out = most[0];
    for (int j = 1; j < LANES; j++) out = std::max(out, most[j]);
    return out;
  }

  // The logarithm of the mass of all of them.
  float into_mass(long t, long state) const {
    const float most = into_best(t, state);
    if (most == NONE) return NONE;
    const float *own = step(t) + state * stride, *before = &reached[(t - 1) * stride];
    Sum sum;
    for (long i = 0; i < stride; i += BLOCK)
      for (int j = 0; j < PARTS; j++) {
        const long place = i + j * LANES;
        Vec v = load(own + place) + load(before + place) - all(most);
        sum.part[j] += v < all(-87.f) ? all(0.f) : exponential(v);
      }
    return std::log(sum.total()) + most;
  }

  long likeliest_state(const float* x) const { return std::max_element(x, x + m) - x; }

  // The state of position t on the best path that goes on to `state`.
  long likeliest_before(long t, long state) const {
    const float *own = step(t + 1) + state * stride, *before = &reached[t * stride];
    long out = 0;
    for (long i = 1; i < m; i++)
      if (own[i] + before[i] > own[out] + before[out]) out = i;
    return out;
  }

  long drawn_before(long t, long state, double uniform) {
    const float *own = step(t + 1) + state * stride, *before = &reached[t * stride];
    masses.resize(stride);
    for (long i = 0; i < stride; i++) masses[i] = own[i] + before[i];
    return drawn(uniform);
  }

  // Of each state the logarithm of the mass of all ways on from it to the end.
  void pass_messages() {
    messages.assign(n * stride, 0);
    for (long t = n - 1; t > 0; t--)
      for (long i = 0; i < stride; i += LANES) {
        Vec most = all(NONE), sum = all(0.f);
        for (long j = 0; j < m; j++) {
          const Vec v = way(t, j, i);
          most = v > most ? v : most;
        }
        for (long j = 0; j < m; j++) {
          const Vec v = way(t, j, i) - most;
          sum += v > all(-87.f) ? exponential(v) : all(0.f);
        }
        for (int l = 0; l < LANES; l++)
          messages[(t - 1) * stride + i + l] = most[l] == NONE ? NONE : std::log(sum[l]) + most[l];
      }
  }

  // From states i .. i + LANES of position t - 1 through state j of position t.
  Vec way(long t, long j, long i) const {
    return load(step(t) + j * stride + i) + all(at[t * stride + j] + messages[t * stride + j]);
  }

  // The law of position t's state behind `before`, in `masses`: each head's own candidates where no
  // path is possible, all alike where they are not either.
  void weigh(long t, long before) {
    masses.assign(stride, NONE);
    for (long j = 0; j < m; j++) {
      const float into = t ? at[t * stride + j] + step(t)[j * stride + before] : reached[j];
      masses[j] = into + messages[t * stride + j];
    }
    float top = largest(masses.data(), stride);
    if (top == NONE) {
      std::copy_n(&at[t * stride], stride, masses.begin());
      top = largest(masses.data(), stride);
    }
    if (top == NONE) std::fill_n(masses.begin(), m, top = 0);
    const float sum = (float)exponentials(masses.data(), m, top, 1);
    for (long j = 0; j < m; j++) masses[j] /= sum;
  }

  // Of tokens by the states' law, and the likeliest stop id with the probability `ends`.
  void law(long t, float ends, float* out) const {
    std::fill(out, out + vocab, given[t].lawful ? 0 : NO_LAW);
    for (long j = 0; j < m; j++) out[ids[(s.joint ? 0 : t * m) + j]] += masses[j] * (1 - ends);
    if (!stops.empty()) out[given[t].end] += ends;
  }

  // A state by the logarithms in `masses`; the last where there is no mass.
  long drawn(double uniform) {
    exponentials(masses.data(), m, std::max(largest(masses.data(), stride), -3e38f), 1);
    int64_t state;
    sst_draw(masses.data(), 1, m, &uniform, &state);
    return std::min<long>(state, m - 1);
  }

  // [m, stride] of the states of positions t - 1 and t.
  const float* step(long t) const { return steps.data() + (s.joint ? 0 : t - 1) * m * stride; }

  const Search& s;
  const Rows& rows;
  const long n, vocab, k;
  std::vector<int64_t> stops;
  std::vector<Given> given;        // [n]
  std::vector<float> scores;       // [n, vocab]
  std::vector<int32_t> own, ids;   // candidates of each head [n, k]; of the lattice [n or 1, m]
  std::vector<uint8_t> marked;     // [vocab]
  std::vector<float> at, reached;  // [n, stride]: scores of states, and of the paths to them
  std::vector<float> steps, masses, messages;
  long m = 0, stride = 0;
  Best best;
};

}  // namespace

std::unique_ptr<Paths> path_search(const Search& search, const Rows& rows, int64_t n) {
  return std::make_unique<PathSearch>(search, rows, n);
}
