// Llama 2, 3 and 3.x, SmolLM2 and all other models of model_type "llama". Source: transformers, models/llama.
#pragma once

#include "models/family.h"

namespace plimsoll {

extern const Family kLlama;

}  // namespace plimsoll
