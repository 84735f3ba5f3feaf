// A folder for one test, removed at its end with all content; and files as plain bytes.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "formats/temporary_folder.h"

namespace plimsoll {

using ScratchFolder = TemporaryFolder;

// Some file systems flush a file that is rewritten in place when it is closed. A new file is not flushed; tests write thousands.
inline void write_raw(const std::filesystem::path& path, std::string_view text) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string read_raw(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace plimsoll
