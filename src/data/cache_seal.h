// The seal that binds a cache file to its name and its content. A file that was cut, changed or renamed has another seal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/hash.h"

namespace plimsoll {

// The seal of a file of this name (the folder does not count). `header`: the header without the seal.
std::uint64_t cache_seal(const std::filesystem::path& file, std::string_view header, const Hasher& content);

}  // namespace plimsoll
