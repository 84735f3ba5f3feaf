// The memory of a distinct piece of generated code.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// The average over products of typical shapes, measured in a child process.
Bytes measure_primitive(int threads);

}  // namespace plimsoll
