// Verification of drafted tokens.
//
// The readable references are decoding/rules/acceptance.py (`Tolerance`, `verify`) and
// decoding/rules/group.py (`Group`): the same comparisons in float64, laws equal to 1e-6.

#include "verify.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "threads.h"
#include "vectors.h"

namespace {

constexpr float TINY = std::numeric_limits<float>::min();

class Tolerance : public Judge {
 public:
  Tolerance(double beta, int64_t vocab) : beta(beta), vocab(vocab) {}

  bool accepts(int64_t id, const double* uniforms, const float* q, const float* p) override {
    return (uniforms[0] - beta) * p[id] < q[id];
  }

  double ratio(int64_t id, const double*, const float* q, const float* p) override {
    return q[id] / (double)std::max(p[id], TINY);
  }

  void residual(const float* q, const float* p, float* out) override {
    for (int64_t i = 0; i < vocab; i++) out[i] = q[i] - p[i] < 0 ? 0 : q[i] - p[i];  // NaN stays
  }

 private:
  const double beta;
  const int64_t vocab;
};

constexpr int FEW = 16;  // as in decoding/rules/group.py
constexpr double NEARLY_ONE = 1 - 1.0 / (1 << 30);

typedef float Two __attribute__((vector_size(8), aligned(4), may_alias));

// Sums of what some indices name in x, of floats or of pairs. Four running ones: one would wait for
// every addition.
template <class Value, class Index>
Value sum_of(const Value* x, const Index* i, const Index* end) {
  Value sum[4] = {};
  for (; i + 4 <= end; i += 4)
    for (int j = 0; j < 4; j++) sum[j] += x[i[j]];
  for (; i < end; i++) sum[0] += x[*i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class Index>  // of tokens and groups: 16 bits, half to read, or 32
class Grouped : public Judge {
 public:
  Grouped(const Groups& groups, int threads)
      : g(groups), threads(threads), own((const Index*)g.token_groups), members((const Index*)g.group_tokens),
        surplus(g.count), coarse(g.count), pairs(2 * g.tokens) {}

  // u P(K) < Q(K), with K by the auxiliary uniform; looks at the members of K only.
  bool accepts(int64_t id, const double* uniforms, const float* q, const float* p) override {
    const Coarse of = group_of(id, uniforms, q, p);
    return uniforms[0] * of.p < of.q;
  }

  double ratio(int64_t id, const double* uniforms, const float* q, const float* p) override {
    const Coarse of = group_of(id, uniforms, q, p);
    return of.q / std::max<double>(of.p, TINY);
  }

  // sum_k max(Q(k) - P(k), 0) q(x) w[k, x] / Q(k).
  void residual(const float* q, const float* p, float* out) override {
    possible.clear();
    for (int64_t i = 0; i < g.tokens; i++)
      if (q[i] + p[i] != 0) possible.push_back(i);
    if ((int64_t)possible.size() * FEW <= g.tokens)
      among_possible(q, p, out);
    else
      everywhere(q, p, out);
  }

 private:
  struct Coarse {
    double q, p;
  };

  // Both laws of the group that the auxiliary uniform says.
  Coarse group_of(int64_t id, const double* uniforms, const float* q, const float* p) const {
    const double *begin = g.levels + g.token_offsets[id], *end = g.levels + g.token_offsets[id + 1];
    const double level = id + std::min(uniforms[1], NEARLY_ONE);
    const int64_t k = own[std::upper_bound(begin, end, level) - g.levels];
    Coarse both = {0, 0};
    for (int64_t i = g.group_offsets[k]; i < g.group_offsets[k + 1]; i++) {
      const int64_t token = members[i];
      const double weight = g.scores[k] / g.total[token];
      both.q += q[token] * weight, both.p += p[token] * weight;
    }
    return both;
  }

  int64_t size_of(int64_t k) const { return g.group_offsets[k + 1] - g.group_offsets[k]; }

  template <class Work>
  void each_group_of(int64_t token, Work work) {
    for (int64_t i = g.token_offsets[token]; i < g.token_offsets[token + 1]; i++) work(own[i]);
  }

  // Over memberships of tokens that q or p may emit; of a sampler with top-k, a few dozen tokens.
  void among_possible(const float* q, const float* p, float* out) {
    std::memset(out, 0, g.tokens * sizeof(float));
    for (int64_t x : possible)
      each_group_of(x, [&](int64_t k) { coarse[k].q = coarse[k].p = 0; });
    for (int64_t x : possible) {
      const double target = q[x] / g.total[x], draft = p[x] / g.total[x];
      each_group_of(x, [&](int64_t k) {
        coarse[k].q += target * g.scores[k], coarse[k].p += draft * g.scores[k];
      });
    }
    for (int64_t x : possible) {
      const double share = q[x] / g.total[x];
      double mass = 0;
      if (q[x] != 0)
        each_group_of(x, [&](int64_t k) {
          const double left = coarse[k].q - coarse[k].p;
          if (!(left <= 0)) mass += left * (share * g.scores[k] / coarse[k].q);
        });
      out[x] = (float)mass;
    }
  }

  // Two passes over all memberships, shared among threads.
  void everywhere(const float* q, const float* p, float* out) {
    for (int64_t i = 0; i < g.tokens; i++)
      pairs[2 * i] = q[i] / (float)g.total[i], pairs[2 * i + 1] = p[i] / (float)g.total[i];
    Pool::run(threads, [&](Team& team) {
      to_groups(team.share(g.count));
      team.barrier();
      back_to_tokens(team.share(g.tokens), q, p, out);
    });
  }

  void to_groups(std::pair<long, long> part) {
    const Two* both_of = (const Two*)pairs.data();
    for (int64_t k = part.first; k < part.second; k++) {
      const float score = (float)g.scores[k];
      const Two both =
          sum_of(both_of, members + g.group_offsets[k], members + g.group_offsets[k + 1]);
      const float target = both[0] * score, left = target - both[1] * score;
      surplus[k] = (left < 0 ? 0 : left) / std::max(target, TINY) * score;
    }
  }

  // A token that is alone in its one group has max(q - p, 0) without rounding.
  void back_to_tokens(std::pair<long, long> part, const float* q, const float* p, float* out) {
    for (int64_t i = part.first; i < part.second; i++) {
      const Index *begin = own + g.token_offsets[i], *end = own + g.token_offsets[i + 1];
      const bool alone = end - begin == 1 && size_of(*begin) == 1;
      const float left = q[i] - p[i];
      if (q[i] == 0)
        out[i] = 0;
      else if (alone)
        out[i] = left < 0 ? 0 : left;
      else
        out[i] = q[i] * (sum_of(surplus.data(), begin, end) / (float)g.total[i]);
    }
  }

  const Groups& g;
  const int threads;
  const Index *own, *members;  // groups of tokens, tokens of groups
  std::vector<int64_t> possible;
  std::vector<float> surplus;
  std::vector<Coarse> coarse;
  std::vector<float> pairs;
};

}  // namespace

std::unique_ptr<Judge> judge(const Rule& rule, int64_t vocab, int threads) {
  if (!rule.groups) return std::make_unique<Tolerance>(rule.beta, vocab);
  if (rule.groups->wide) return std::make_unique<Grouped<int32_t>>(*rule.groups, threads);
  return std::make_unique<Grouped<uint16_t>>(*rule.groups, threads);
}

bool following(Judge& judge, int64_t vocab, const float* q, const float* p, float* next) {
  if (p)
    judge.residual(q, p, next);
  else
    std::memcpy(next, q, vocab * sizeof(float));
  const double mass = total(next, vocab);
  if (mass <= 0) {
    std::memcpy(next, q, vocab * sizeof(float));
    return true;
  }
  const float sum = (float)mass;
  for (int64_t i = 0; i < vocab; i++) next[i] /= sum;
  return false;
}

extern "C" {

// decoding/rules/acceptance.py's `verify`: target [batch, drafted + 1, vocab], draft [batch, drafted,
// vocab], ids [batch, drafted] of which each row's first `lengths` count, uniforms [batch, drafted,
// 2]. Out: accepted and fallback [batch], and the law of the token behind, next [batch, vocab].
void sst_verify(const Rule* rule, int64_t batch, int64_t drafted, int64_t vocab,
                const float* target, const float* draft, const int64_t* ids, const int64_t* lengths,
                const double* uniforms, int64_t* accepted, uint8_t* fallback, float* next,
                int32_t threads) {
  const auto by = judge(*rule, vocab, threads);
  for (int64_t b = 0; b < batch; b++, next += vocab) {
    const float *q = target + b * (drafted + 1) * vocab, *p = draft + b * drafted * vocab;
    int64_t n = 0;
    for (; n < lengths[b]; n++, q += vocab, p += vocab) {
      const int64_t place = b * drafted + n;
      if (!by->accepts(ids[place], uniforms + 2 * place, q, p)) break;
    }
    accepted[b] = n;
    fallback[b] = following(*by, vocab, q, n < lengths[b] ? p : nullptr, next);
  }
}
}
