// Inputs of cases that are matrices in blocks: bytes that mean sane numbers, and the numbers.
#pragma once

#include <optional>

#include "ops/cases/cases.h"
#include "tensor/block_format.h"

namespace plimsoll::test {

CaseInput in_blocks(const BlockMatrix& matrix);
// Fills such an input, for OpCase::derive.
void fill_blocks(const BlockMatrix& matrix, Numbers& bytes);
// What the bytes mean.
Numbers elements_of(const BlockMatrix& matrix, const Numbers& bytes);
// The same of an input that may be in blocks.
Numbers elements_of(const std::optional<BlockMatrix>& blocks, const Numbers& input);

// The case with its input `i`, a matrix, in blocks, of which no gradient is wanted.
OpCase with_blocks(BlockFormat format, std::size_t i, OpCase a_case);

}  // namespace plimsoll::test
