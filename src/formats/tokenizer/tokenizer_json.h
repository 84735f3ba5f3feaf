// tokenizer.json, read as a stream and parsed as hostile.
// Memory while reading: the tables, a buffer of 64 KiB, and the longest text of the file (at most 1 MiB).
#pragma once

#include <filesystem>

#include "formats/tokenizer/tokenizer_file.h"

namespace plimsoll {

// E-TOKENIZER: it is no JSON, nested too deeply, too large, lacks a part that it must have, or has one twice; a merge that is
// none.
TokenizerFile read_tokenizer_json(const std::filesystem::path& path);

}  // namespace plimsoll
