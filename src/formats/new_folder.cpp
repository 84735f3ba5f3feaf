#include "formats/new_folder.h"

#include <fmt/core.h>

#include "formats/file.h"

namespace plimsoll {

std::filesystem::path new_folder_beside(const std::filesystem::path& folder) {
  std::filesystem::path whole = folder;
  if (!whole.has_filename()) whole = whole.parent_path();  // a slash at the end
  for (int number = 2;; ++number) {
    std::filesystem::path other = whole;
    other += fmt::format("-{}", number);
    if (!is_there(other)) return other;
  }
}

}  // namespace plimsoll
