// Qwen2 and Qwen2.5: biases of queries, keys and values. Source: transformers, models/qwen2.
#pragma once

#include "models/family.h"

namespace plimsoll {

extern const Family kQwen2;

}  // namespace plimsoll
