#include "data/cache_folders.h"

#include <unistd.h>

#include <system_error>

#include "base/error.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

bool made_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return !error && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

std::optional<std::filesystem::path> CacheFolders::find(const std::string& name) const {
  for (const std::filesystem::path& folder : {cache, elsewhere}) {
    std::error_code ignored;
    if (!folder.empty() && std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

std::filesystem::path CacheFolders::writable() const {
  const bool cached = made_writable(cache);
  if (!cached && (elsewhere.empty() || !made_writable(elsewhere))) {
    throw data_error("E-IO-WRITE", cache.string(), "the folder for token files cannot be written",
                     "a folder that can be written, in XDG_CACHE_HOME",
                     {"export XDG_CACHE_HOME=/tmp/cache, and the same command again"});
  }
  const std::filesystem::path& folder = cached ? cache : elsewhere;
  remove_abandoned_partials(folder);
  return folder;
}

void CacheFolders::advise(Error& error, const std::filesystem::path& folder) const {
  if (folder == cache && error.code.starts_with("E-IO-"))
    error.remedies = {"export XDG_CACHE_HOME=FOLDER, one with more space, and the same command again"};
}

}  // namespace plimsoll
