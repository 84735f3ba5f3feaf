// The smallest case of each kernel, for tools under which a case takes a thousand times as long.
#pragma once

namespace plimsoll::test {

// Leaves, of all cases of an op with equal attributes, dtypes and last extent of the first operand, the one with the fewest
// elements: other extents choose no other kernel. Must precede the first use of a case.
void keep_smallest_cases();

}  // namespace plimsoll::test
