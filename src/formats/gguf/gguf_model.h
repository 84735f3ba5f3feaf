// What a GGUF file says of a model beside its tensors: the keys of its architecture, and how rows of queries and keys lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/gguf/gguf_keys.h"

namespace plimsoll {

struct GgufModel {
  std::string architecture;  // "llama", "qwen2", "qwen3" or "gpt2"
  GgufKeys keys;             // those with that prefix
  std::int64_t heads = 0, kv_heads = 0;
  std::vector<float> rope_divisors;  // of rotary angles, one for each pair; empty: there are none
};

}  // namespace plimsoll
