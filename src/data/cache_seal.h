// The seal that binds a cache file to its name and its content. A file that was cut, changed or renamed has another seal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/hash.h"

namespace plimsoll {

template <class T>
std::string_view text_of_bytes(const T& object) {
  return {reinterpret_cast<const char*>(&object), sizeof object};
}

// The seal of a file of this name (the folder does not count). The header's own seal counts as 0.
template <class Header>
std::uint64_t cache_seal(const std::filesystem::path& file, Header header, const Hasher& content) {
  header.seal = 0;
  return Hasher().add(file.filename().string()).add(text_of_bytes(header)).add(content.hex()).low64();
}

}  // namespace plimsoll
