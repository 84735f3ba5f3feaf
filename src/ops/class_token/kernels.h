// Tokens of a batch on the CPU: fp32, dense, rows of `width` numbers. Samples are independent of each other, nothing allocates,
// and the number of threads changes no bit.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

struct TokenShape {
  std::int64_t batch, tokens, width;  // tokens: those with the class token
};

// y [batch, tokens, width] = {token, x [batch, tokens - 1, width]} + positions [tokens, width]
void place_tokens(const TokenShape& shape, const float* x, const float* token, const float* positions, float* y);
// y [batch, width] = x [batch, tokens, width] at the first token
void first_tokens(const TokenShape& shape, const float* x, float* y);
// y [batch, tokens, width] = d [batch, width] at the first token, zeros at the others
void spread_first_tokens(const TokenShape& shape, const float* d, float* y);
// y [batch, tokens - 1, width] = x [batch, tokens, width] without the first token
void other_tokens(const TokenShape& shape, const float* x, float* y);

}  // namespace plimsoll::cpu
