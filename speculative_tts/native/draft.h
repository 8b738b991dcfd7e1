// Who drafts the tokens of a round.
#pragma once

#include <cstdint>
#include <memory>

#include "native.h"

class Drafting {
 public:
  virtual ~Drafting() = default;
  // Writes up to drafted[b] tokens behind those of each row, provisionally, and their laws [batch,
  // lookahead, vocab]; drafted[b] becomes what counts. Returns the most of any row, -1 where a
  // cache is too short.
  virtual int64_t propose(int64_t* drafted, float* laws) = 0;
  // Of row b's tokens some stay, or all of at least one; `state` is the target's that the token
  // behind them is drawn from.
  virtual void saw(long b, bool all_accepted, const float* state) = 0;
};

// `target` has the embedding that a recurrent layer is used with.
std::unique_ptr<Drafting> drafting(const Drafter& drafter, const Reader& target,
                                   const Sampling& sampling, const Rows& rows, const Tokens& batch,
                                   Rounds& rounds);

// Each of n heads' token by the sampler, which sees those before; logits [n, batch, vocab]. Their
// laws [batch, n, vocab] are kept unless null.
void independent(const Sampling& sampling, const Rows& rows, const Tokens& t, int32_t purpose,
                 int64_t n, const float* logits, float* kept);
