// Hugging Face folders of GPT-2 models: config.json, and how tensors are called in model.safetensors.
// What a folder asks for and Plimsoll does not compute is refused (data_error E-FORMAT-CONFIG), never ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace plimsoll {

struct Gpt2Config {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t context = 1024;  // n_positions: rows of the position embedding
  std::int64_t vocab = 50257;
  double layer_norm_epsilon = 1e-5;
  double embedding_dropout = 0.1;
  double attention_dropout = 0.1;
  double residual_dropout = 0.1;
  double initializer_range = 0.02;
  bool byte_vocabulary = false;  // token ids are the bytes of the text; there is no vocab.json

  friend bool operator==(const Gpt2Config&, const Gpt2Config&) = default;
};

// Reads folder/config.json.
Gpt2Config read_gpt2_config(const std::filesystem::path& folder);

// Writes folder/config.json, whole or not at all; transformers opens it as GPT2LMHeadModel. One that is there is patched: what
// Plimsoll does not know of, and the ids of special tokens, stay.
void write_gpt2_config(const std::filesystem::path& folder, const Gpt2Config& config);

// The name of a stored tensor without the prefix "transformer.": "h.0.attn.c_attn.weight". Empty for what a folder may hold
// beside the parameters: attn.bias and attn.masked_bias (constant masks), lm_head.weight (tied to wte.weight).
std::string_view gpt2_parameter_name(std::string_view stored);

}  // namespace plimsoll
