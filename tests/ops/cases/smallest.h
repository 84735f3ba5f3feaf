// The smallest case of each kernel, for tools under which a case takes a thousand times as long.
#pragma once

#include <vector>

#include "ops/cases/cases.h"

namespace plimsoll::test {

// The case with the fewest elements among all with equal attributes, dtypes and last extent of the first operand: other extents
// choose no other kernel.
std::vector<OpCase> smallest_cases(const std::vector<OpCase>& cases);

// Leaves these in all_cases(). Must precede the first use of a case.
void keep_smallest_cases();

}  // namespace plimsoll::test
