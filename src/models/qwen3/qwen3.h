// Qwen3 without experts: RMS norms of each head of queries and keys. Source: transformers, models/qwen3.
#pragma once

#include "models/family.h"

namespace plimsoll {

extern const Family kQwen3;

}  // namespace plimsoll
