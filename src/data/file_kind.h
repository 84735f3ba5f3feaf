// What a data file evidently is, by its first bytes and its name: what "auto" goes by, and refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/file.h"

namespace plimsoll {

inline constexpr std::int32_t kLlmcMagic = 20240520;

// Neither text nor uint16 tokens.
struct ForeignKind {
  std::string what;    // "a gzip file"
  std::string remedy;  // how it becomes one of them
};
// `tokens`: whether the file would be read as uint16 tokens, else as text. `vocab`: of the model.
std::optional<ForeignKind> foreign_kind(const File& file, bool tokens, std::int64_t vocab);

bool begins_like_llmc(const File& file);

}  // namespace plimsoll
