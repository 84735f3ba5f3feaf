// The tokenizer of a GGUF file as the files of a Hugging Face folder, which formats/tokenizer reads. Tokens and merges go through
// small buffers; a vocabulary with scores in place of merges is held while its merges are made. A kind of tokenizer that is not
// known is refused by name (data_error E-FORMAT-GGUF).
#pragma once

#include <filesystem>

#include "formats/gguf/gguf_file.h"

namespace plimsoll {

bool has_tokenizer(const GgufFile& file);

// tokenizer.json.
void write_tokenizer_json(const GgufFile& file, const std::filesystem::path& folder);

// What a folder of the model has beside its weights: config.json, generation_config.json, tokenizer.json, tokenizer_config.json
// and chat_template.jinja, each whole or not at all. `replace`: also what is there already.
void write_gguf_config(const GgufFile& file, const std::filesystem::path& folder, bool replace);
void write_gguf_tokenizer(const GgufFile& file, const std::filesystem::path& folder, bool replace);

}  // namespace plimsoll
