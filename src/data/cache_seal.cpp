#include "data/cache_seal.h"

namespace plimsoll {

std::uint64_t cache_seal(const std::filesystem::path& file, std::string_view header, const Hasher& content) {
  return Hasher().add(file.filename().string()).add(header).add(content.hex()).low64();
}

}  // namespace plimsoll
