// Reads tokenizer.json as a stream; the file is not trusted. The memory is that of the tables, a buffer of 64 KiB, and the
// longest text of the file (at most 1 MiB).
#pragma once

#include <filesystem>

#include "formats/tokenizer/tokenizer_file.h"

namespace plimsoll {

// E-TOKENIZER: the file is no JSON, nested too deeply, or too large; it lacks a required part or has one twice; or a merge is
// malformed.
TokenizerFile read_tokenizer_json(const std::filesystem::path& path);

}  // namespace plimsoll
