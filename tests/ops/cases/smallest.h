// The smallest case of each kernel, for tools under which a case takes a thousand times as long.
#pragma once

#include <vector>

#include "ops/cases/cases.h"

namespace plimsoll::test {

// The case with the fewest elements, but 64, among all that run the same kernel: with equal dtypes, with attributes that differ
// in numbers alone, and with rows of equally many whole tiles, or of less, or of a part of a tile.
std::vector<OpCase> smallest_cases(const std::vector<OpCase>& cases);

// Leaves these in all_cases(). Must precede the first use of a case.
void keep_smallest_cases();

}  // namespace plimsoll::test
