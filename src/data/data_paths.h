// The names of the data: files, patterns ("texts/*.txt") and folders, in the order of a list.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

struct DataPaths {
  std::vector<std::filesystem::path> names;

  DataPaths() = default;
  DataPaths(std::filesystem::path name) {  // one name is a list of one
    if (!name.empty()) names.push_back(std::move(name));
  }
  DataPaths(std::vector<std::filesystem::path> all) : names(std::move(all)) {}

  bool empty() const { return names.empty(); }
  // The first name and the number of further ones.
  std::string text() const;

  friend bool operator==(const DataPaths&, const DataPaths&) = default;
};

// The files in the order of the list; those of a pattern or a folder by name, byte by byte. A folder stands for all of its files
// but those whose names begin with a dot. A file that is named twice counts twice. data_error E-DATA-FILES: a pattern or folder
// without files, a folder in a folder, more than kMostDataFiles.
std::vector<std::filesystem::path> data_files(const DataPaths& paths);

// The first name of no file or folder, or the first pattern without a match.
std::optional<std::filesystem::path> first_missing(const DataPaths& paths);

inline constexpr std::size_t kMostDataFiles = 256;  // all of them stay open

}  // namespace plimsoll
