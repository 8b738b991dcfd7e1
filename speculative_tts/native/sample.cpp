// From logits to the law of the next token, and from a law and a uniform number to a token.
//
// The readable reference is decoding/sampling/sampler.py (`Sampler.law`), decoding/sampling/repetition_aware.py and
// decoding/sampling/randomness.py (`draw`): the same steps; laws agree to 1e-6. A nucleus that ends within
// rounding of top_p may have one token more or less than there.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "logits.h"
#include "native.h"

namespace {

class Sampler {
 public:
  Sampler(const Sampling& sampling, const Rows& rows) : s(sampling), rows(rows), n(rows.vocab) {}

  void law(long b, long f, float* out) {
    const float* given = rows.logits + (b * rows.fresh + f) * n;
    const int64_t position = rows.positions[b * rows.fresh + f];
    const bool early = position < rows.minimum[b];
    const bool bar_first = !s.window || s.again_without || s.temperature == 0;
    logits.assign(given, given + n);
    if (s.penalty > 0 && s.penalty != 1)
      penalise(rows.prompted + b * n, rows.history + b * rows.capacity, position);
    if (s.slots) keep_slot(position % s.slots);
    if (early && bar_first)
      for (long i = 0; i < n; i++)
        if (rows.barred[i]) logits[i] = NONE;
    const long top = likeliest(logits.data(), n);
    if (top < 0) return std::fill(out, out + n, NO_LAW);
    if (s.temperature == 0 || (s.end_when_likeliest && rows.stops[top])) {
      std::memset(out, 0, n * sizeof(float));
      out[top] = 1;
    } else if (s.window) {
      repetition_aware(top, rows.history + b * rows.capacity, position, out);
      if (early && !bar_first) condition(out);
    } else {
      plain(top, out);
    }
  }

 private:
  // Makes ids less likely that are in the prompt or before (decoding/sampling/penalty.py).
  void penalise(const uint8_t* prompted, const int64_t* history, int64_t position) {
    seen.assign(prompted, prompted + n);
    for (int64_t p = 0; p < position; p++)
      if (history[p] < n) seen[history[p]] = 1;
    for (long i = 0; i < n; i++)
      if (seen[i]) logits[i] = logits[i] < 0 ? logits[i] * s.penalty : logits[i] / s.penalty;
  }

  // Bars the ids that this position of a frame cannot hold (`Slots.barred`).
  void keep_slot(int64_t slot) {
    const auto first = logits.begin();
    const long begin = slot ? s.slot_ends[slot - 1] : 0, codes = s.slot_ends[s.slots - 1];
    std::fill(first, first + begin, NONE);
    std::fill(first + s.slot_ends[slot], first + codes, NONE);
    if (slot && !s.end_in_frame) std::fill(first + codes, logits.end(), NONE);
  }

  const Sampling& s;
  const Rows& rows;
  const long n;
  std::vector<float> logits, kept;
  std::vector<uint8_t> seen;
  Best best;

  int most() const { return s.top_k && s.top_k < n ? s.top_k : (int)n; }

  void plain(long top, float* out) {
    if (!s.top_k && s.top_p == 1) {
      std::memcpy(out, logits.data(), n * sizeof(float));
      const float sum = (float)exponentials(out, n, logits[top], s.temperature);
      for (long i = 0; i < n; i++) out[i] /= sum;
      return;
    }
    const long possible = std::count_if(logits.begin(), logits.end(), [](float x) { return x > NONE; });
    best.find(logits.data(), n, (int)std::min<long>(most(), possible));
    kept.assign(best.value.begin(), best.value.begin() + best.count);
    const float sum = (float)exponentials(kept.data(), best.count, logits[top], s.temperature);
    for (float& p : kept) p /= sum;
    nucleus(false);
    std::memset(out, 0, n * sizeof(float));
    for (int i = 0; i < best.count; i++) out[best.id[i]] = kept[i];
  }

  // Keeps what lies before top_p in `kept`, normalised. `exclusive`: the sum before each number is
  // added up as the official repetition-aware sampler does, else it is the sum behind it less it.
  void nucleus(bool exclusive) {
    if (s.top_p == 1 && !exclusive) return;
    double sum = 0, total = 0;  // as torch: added up in float64, rounded where it is looked at
    for (float& p : kept) {
      const float before = (float)sum;
      sum += p;
      if (!((exclusive ? before : (float)sum - p) < s.top_p)) p = 0;
      total += p;
    }
    for (float& p : kept) p /= (float)total;
  }

  void repetition_aware(long top, const int64_t* history, int64_t position, float* out) {
    std::vector<float>& probs = scratch;
    probs = logits;
    const float sum = (float)exponentials(probs.data(), n, logits[top], s.temperature);
    for (float& p : probs) p /= sum;
    best.find(probs.data(), n, most());
    kept.assign(best.value.begin(), best.value.begin() + best.count);
    nucleus(true);
    repeated.assign(best.count, 0);
    float mass = 0, weights = 0;
    for (int i = 0; i < best.count && kept[i] > 0; i++) {
      if (!frequent(best.id[i], history, position)) continue;
      repeated[i] = kept[i];
      mass += repeated[i];
      if (i) weights += repeated[i] / (1 - best.value[i]);
    }
    if (!s.again_without) {
      for (long i = 0; i < n; i++) out[i] = probs[i] * mass;
      for (int i = 0; i < best.count; i++) out[best.id[i]] += kept[i] - repeated[i];
      return;
    }
    for (long i = 0; i < n; i++) out[i] = probs[i] * weights;
    for (int i = 1; i < best.count; i++)
      if (repeated[i] > 0)
        out[best.id[i]] =
            std::max(0.f, out[best.id[i]] - probs[best.id[i]] * (repeated[i] / (1 - best.value[i])));
    for (int i = 0; i < best.count; i++) out[best.id[i]] += kept[i] - repeated[i];
    if (repeated[0] > 0) add_without_likeliest(repeated[0], out);
  }

  // The law of drawing again without the likeliest id: a softmax of its own, as 1 - p may be 0.
  void add_without_likeliest(float mass, float* out) {
    std::vector<float>& others = logits;
    const std::vector<float>& probs = scratch;
    others[best.id[0]] = NONE;
    const float second = *std::max_element(others.begin(), others.end());
    if (second == NONE) {  // nothing else is possible
      for (long i = 0; i < n; i++) out[i] += mass * probs[i];
      return;
    }
    const float sum = (float)exponentials(others.data(), n, second, s.temperature);
    for (long i = 0; i < n; i++) out[i] += mass * (others[i] / sum);
  }

  bool frequent(int32_t id, const int64_t* history, int64_t position) const {
    int times = 0;
    for (int64_t p = std::max<int64_t>(0, position - s.window); p < position; p++)
      times += history[p] == id;
    return (float)times >= s.often;
  }

  // "Draw again until the id is allowed"; no law where no id is.
  void condition(float* out) const {
    double total = 0;
    for (long i = 0; i < n; i++)
      if (!rows.barred[i]) total += out[i];
    for (long i = 0; i < n; i++)
      out[i] = total > 0 ? rows.barred[i] ? 0 : (float)(out[i] / total) : NO_LAW;
  }

  std::vector<float> scratch, repeated;
};

// The first id at which the running sum of the law passes uniform * total; n where there is none.
int64_t draw(const float* law, long n, double uniform) {
  const double level = uniform * total(law, n);
  double sum = 0;
  for (long begin = 0; begin < n; begin += LANES) {
    if (empty(law, begin, n)) continue;
    for (long i = begin; i < std::min(begin + LANES, n); i++)
      if ((sum += law[i]) > level) return i;
  }
  return n;
}

}  // namespace

extern "C" {

// laws: [batch, fresh, vocab]; NaN where logits are NaN or infinite or nothing is possible.
void sst_laws(const Sampling* sampling, const Rows* rows, float* laws) {
  Sampler sampler(*sampling, *rows);
  for (long b = 0; b < rows->batch; b++)
    for (long f = 0; f < rows->fresh; f++)
      sampler.law(b, f, laws + (b * rows->fresh + f) * rows->vocab);
}

// One id a law: laws [count, vocab], uniforms [count] -> ids [count].
void sst_draw(const float* laws, int64_t count, int64_t vocab, const double* uniforms,
              int64_t* ids) {
  for (int64_t i = 0; i < count; i++) ids[i] = draw(laws + i * vocab, vocab, uniforms[i]);
}
}
