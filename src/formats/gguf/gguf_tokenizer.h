// The tokenizer of a GGUF file as the files of a Hugging Face folder, for formats/tokenizer. Tokens and merges go through small
// buffers. A vocabulary with scores instead of merges is held while its merges are made. An unknown kind of tokenizer is refused
// by name (data_error E-FORMAT-GGUF).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "formats/gguf/gguf_file.h"

namespace plimsoll {

bool has_tokenizer(const GgufFile& file);

// The token table, a matrix.
const GgufTensor& gguf_table(const GgufFile& file);
// Puts bos_token_id, eos_token_id and pad_token_id of config.json; absent ones are null.
void put_gguf_tokens(const GgufFile& file, nlohmann::ordered_json& json);
// generation_config.json: these ids, and all tokens that end generation.
nlohmann::ordered_json gguf_generation_config(const GgufFile& file);

// Writes tokenizer.json.
void write_tokenizer_json(const GgufFile& file, const std::filesystem::path& folder);

// Writes tokenizer.json, tokenizer_config.json and chat_template.jinja, each atomically. `replace`: overwrites existing files.
void write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, bool replace);

}  // namespace plimsoll
