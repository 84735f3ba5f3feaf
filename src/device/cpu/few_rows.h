// Products of few rows, as generation makes them a token at a time: C = A W (+ bias) with A of up to kFewRows rows of fp32 and a
// W of fp32, 16 bits or blocks. Such a product takes as long as reading W, so each byte of W is read once, decoded in registers,
// and multiplied with all rows. Nothing is packed, and there is no scratch. Each element is a sum whose order k and the
// instruction set fix: bits depend neither on the number of threads or rows nor on addresses, and blocks give those of their
// decoded elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/cpu/stored_matrix.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

inline constexpr std::int64_t kFewRows = 8;

// True if a product has few rows and is a plain one of fp32 beside W.
bool has_few_rows(const GemmShape& shape);

struct FewRows {
  std::int64_t m = 1, n = 1, k = 1;
  bool transposed = false;  // W is stored as [n, k], else as [k, n]
  StoredMatrix matrix = {};
  std::int64_t stride = 1;  // of the rows of C, n or more

  FewRows(const GemmShape& shape, const StoredMatrix& stored);
};

// "plimsoll few rows of nf4"
std::string few_rows_name(const StoredMatrix& matrix);

// A is dense; `bias` may be null.
void multiply_few_rows(const FewRows& shape, const float* a, const std::byte* w, const float* bias, float* c);

}  // namespace plimsoll::cpu
