// A rule of speculation: is a drafted token accepted, and what stands in its place?
#pragma once

#include <cstdint>
#include <memory>

#include "native.h"

class Judge {
 public:
  virtual ~Judge() = default;
  // Is `id`, drawn from p, accepted where the target's law is q? uniforms: ACCEPT and AUXILIARY.
  virtual bool accepts(int64_t id, const double* uniforms, const float* q, const float* p) = 0;
  // q over p of the token, or of the group that `accepts` draws for it.
  virtual double ratio(int64_t id, const double* uniforms, const float* q, const float* p) = 0;
  // Mass of the token in its place, not normalised; p need not sum to 1.
  virtual void residual(const float* q, const float* p, float* out) = 0;
};

std::unique_ptr<Judge> judge(const Rule& rule, int64_t vocab, int threads);

// The law of the token behind the accepted ones: the residual, or q itself where nothing was
// rejected (p is null) or nothing is left, which it returns.
bool following(Judge& judge, int64_t vocab, const float* q, const float* p, float* next);
