// Case inputs that are matrices in blocks: bytes that decode to moderate numbers, and the decoded numbers.
#pragma once

#include <optional>

#include "ops/cases/cases.h"
#include "tensor/block_format.h"

namespace plimsoll::test {

// The bytes of a matrix of moderate numbers.
std::vector<std::byte> stored_blocks(const BlockMatrix& matrix);

CaseInput in_blocks(const BlockMatrix& matrix);
// Fills an input in blocks, for OpCase::derive.
void fill_blocks(const BlockMatrix& matrix, Numbers& bytes);
// The decoded numbers.
Numbers elements_of(const BlockMatrix& matrix, const Numbers& bytes);
// The same for an input that may be in blocks.
Numbers elements_of(const std::optional<BlockMatrix>& blocks, const Numbers& input);

// The case with input `i`, a matrix, in blocks and without gradient.
OpCase with_blocks(BlockFormat format, std::size_t i, OpCase a_case);

}  // namespace plimsoll::test
