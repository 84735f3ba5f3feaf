#include "data/data_paths.h"

#include <fmt/core.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"

namespace plimsoll {
namespace {

using Files = std::vector<std::filesystem::path>;

bool by_bytes(const std::filesystem::path& a, const std::filesystem::path& b) { return a.native() < b.native(); }

Files files_in(const std::filesystem::path& folder) {
  Files files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().native().starts_with('.')) continue;
    std::error_code ignored;
    if (std::filesystem::is_directory(at->path(), ignored)) {
      throw data_error("E-DATA-FILES", folder.string(), fmt::format("it holds the folder {}", at->path().filename().string()),
                       "a folder of data files alone, or patterns for both",
                       {Change("data.train", nlohmann::json{folder.string() + "/*.*", folder.string() + "/*/*"}.dump())});
    }
    files.push_back(at->path());
  }
  if (error) throw data_error("E-DATA-MISSING", folder.string(), "the folder cannot be read: " + error.message());
  if (files.empty()) {
    throw data_error("E-DATA-FILES", folder.string(), "the folder holds no data file", "text or tokens to train on");
  }
  std::ranges::sort(files, by_bytes);
  return files;
}

Files matches(const std::filesystem::path& pattern) {
  if (pattern.native().find("**") != std::string::npos) {
    throw data_error("E-DATA-FILES", pattern.string(), "** is no pattern here", "one * for each level of folders");
  }
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> release(&found, globfree);
  errno = 0;
  const int failed = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  if (failed != 0) {
    const std::string why = failed == GLOB_NOMATCH ? "no file matches this pattern"
                                                   : fmt::format("the pattern cannot be looked up: {}", std::strerror(errno));
    throw data_error("E-DATA-FILES", pattern.string(), why, "a pattern of the files that are there: * ? [a-z]");
  }
  Files files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::ranges::sort(files, by_bytes);
  return files;
}

bool is_pattern(const std::filesystem::path& name) { return name.native().find_first_of("*?[") != std::string::npos; }

}  // namespace

std::string DataPaths::text() const {
  if (names.empty()) return {};
  return names.size() == 1 ? names.front().string() : fmt::format("{} and {} more", names.front().string(), names.size() - 1);
}

std::optional<std::filesystem::path> first_missing(const DataPaths& paths) {
  const auto missing = std::ranges::find_if(paths.names, [](const std::filesystem::path& name) {
    std::error_code unknown;
    if (std::filesystem::exists(name, unknown) || unknown) return false;
    if (name.native().find("**") != std::string::npos) return false;  // data_files() refuses it
    glob_t found{};
    const bool matched = is_pattern(name) && glob(name.c_str(), GLOB_NOSORT, nullptr, &found) != GLOB_NOMATCH;
    globfree(&found);
    return !matched;
  });
  return missing == paths.names.end() ? std::nullopt : std::optional(*missing);
}

std::vector<std::filesystem::path> data_files(const DataPaths& paths) {
  Files files;
  std::error_code ignored;
  for (const std::filesystem::path& name : paths.names) {
    const bool pattern = is_pattern(name) && !std::filesystem::exists(name, ignored);
    for (const std::filesystem::path& match : pattern ? matches(name) : Files{name}) {
      const bool folder = std::filesystem::is_directory(match, ignored);
      const Files those = folder ? files_in(match) : Files{match};
      files.insert(files.end(), those.begin(), those.end());
    }
  }
  if (files.size() > kMostDataFiles) {
    throw data_error("E-DATA-FILES", paths.text(), fmt::format("these are {} files", files.size()),
                     fmt::format("at most {}: all of them stay open", kMostDataFiles), {"cat FOLDER/*.txt > all.txt"});
  }
  return files;
}

}  // namespace plimsoll
