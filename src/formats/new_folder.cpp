#include "formats/new_folder.h"

#include <fmt/core.h>

#include "base/error.h"
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

void create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw data_error("E-IO-WRITE", folder.string(), "the folder cannot be created: " + error.message());
}

}  // namespace plimsoll
