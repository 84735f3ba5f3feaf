// What a distinct piece of generated code takes.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// On the average of products as they occur in training. In a child process.
Bytes measure_primitive(int threads);

}  // namespace plimsoll
