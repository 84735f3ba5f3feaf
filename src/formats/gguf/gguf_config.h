// What the keys of a GGUF file say of its model, in the words of a config.json. An architecture that is not computed, and what
// would change the computation, is refused by name (data_error E-FORMAT-GGUF).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/gguf/gguf_file.h"

namespace plimsoll {

// "llama", "mistral", "qwen2", "qwen3" or "gpt2".
std::string gguf_architecture(const GgufFile& file);

nlohmann::ordered_json gguf_config(const GgufFile& file);
// generation_config.json: the tokens at which generation ends.
nlohmann::ordered_json gguf_generation_config(const GgufFile& file);

// The sizes that tell how rows of queries and keys lie in the file.
struct GgufHeads {
  std::int64_t queries = 0, keys = 0;
};
GgufHeads gguf_heads(const GgufFile& file, const std::string& architecture);

// The scaling of rotary angles that Llama 3 has, from the divisors of its angles.
struct Llama3Rope {
  double factor = 0, low = 0, high = 0;
  std::int64_t original = 0;
};
// What its angles are divided by, one number for each pair.
std::vector<float> llama3_divisors(const Llama3Rope& rope, double theta, std::int64_t pairs);
// Nothing where no such scaling has these divisors. `original`: the context before the scaling; 0: not known.
std::optional<Llama3Rope> llama3_rope_of(std::span<const float> divisors, double theta, std::int64_t original);

}  // namespace plimsoll
