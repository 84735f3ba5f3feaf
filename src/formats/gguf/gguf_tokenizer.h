// The tokenizer of a GGUF file as the files of a Hugging Face folder, which formats/tokenizer reads. Tokens and merges go through
// small buffers; a vocabulary with scores in place of merges is held while its merges are made. A kind of tokenizer that is not
// known is refused by name (data_error E-FORMAT-GGUF).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "formats/gguf/gguf_file.h"

namespace plimsoll {

bool has_tokenizer(const GgufFile& file);

// The table of tokens, a matrix.
const GgufTensor& gguf_table(const GgufFile& file);
// bos_token_id, eos_token_id and pad_token_id as config.json has them; null where there is none.
void put_gguf_tokens(const GgufFile& file, nlohmann::ordered_json& json);
// generation_config.json: these ids, with all tokens at which generation ends.
nlohmann::ordered_json gguf_generation_config(const GgufFile& file);

// tokenizer.json.
void write_tokenizer_json(const GgufFile& file, const std::filesystem::path& folder);

// tokenizer.json, tokenizer_config.json and chat_template.jinja, each whole or not at all. `replace`: also where they are
// already.
void write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, bool replace);

}  // namespace plimsoll
