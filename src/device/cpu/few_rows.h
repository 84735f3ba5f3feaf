// Products of few rows, for generation token by token: C = A W (+ bias) with up to kFewRows fp32 rows of A and a W of fp32, 16
// bits or blocks. Such a product takes as long as reading W. Each byte of W is therefore read once, decoded in registers and
// multiplied with all rows, without packing or scratch. The order of each sum depends on k and the instruction set alone. Bits
// therefore do not depend on threads, rows or addresses, and blocks give the bits of their decoded elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/cpu/stored_matrix.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

inline constexpr std::int64_t kFewRows = 8;

// True if a product has few rows, fp32 A and C, no batch, no transposed A and no accumulation.
bool has_few_rows(const GemmShape& shape);

struct FewRows {
  std::int64_t m = 1, n = 1, k = 1;
  bool transposed = false;  // W is stored as [n, k], else as [k, n]
  StoredMatrix matrix = {};
  std::int64_t stride = 1;  // elements from a row of C to the next, n or more

  FewRows(const GemmShape& shape, const StoredMatrix& stored);
};

// "plimsoll few rows of nf4"
std::string few_rows_name(const StoredMatrix& matrix);

// A is dense; `bias` may be null.
void multiply_few_rows(const FewRows& shape, const float* a, const std::byte* w, const float* bias, float* c);

}  // namespace plimsoll::cpu
