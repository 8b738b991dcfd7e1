// A path through the candidates of several heads.
#pragma once

#include <cstdint>
#include <memory>

#include "native.h"

class Paths {
 public:
  virtual ~Paths() = default;
  // A row's block, which follows the token `last`. Logits of each head lie `apart`, uniforms of
  // each position `draws`; the first `early` positions cannot be the end. Returns whether no path
  // was possible.
  virtual bool block(const float* logits, long apart, int64_t early, int64_t last,
                     const double* uniforms, long draws, int64_t* tokens) = 0;
  // The same to be verified: laws [n, vocab] of the tokens, each given those before.
  virtual void draft(const float* logits, long apart, int64_t early, int64_t last,
                     const double* uniforms, long draws, int64_t* tokens, float* laws) = 0;
};

// For blocks of n tokens.
std::unique_ptr<Paths> path_search(const Search& search, const Rows& rows, int64_t n);
