#include "data/cache_folders.h"

#include <system_error>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/own_folder.h"

namespace plimsoll {

std::optional<File> CacheFolders::find(const std::string& name) const {
  for (const std::filesystem::path& folder : {cache, elsewhere}) {
    if (folder.empty()) continue;
    if (std::optional<File> file = open_own_file(folder / name)) return file;
  }
  return {};
}

std::filesystem::path CacheFolders::writable(const std::vector<std::string>& names) const {
  const bool cached = make_own_folder(cache);
  if (!cached && (elsewhere.empty() || !make_own_folder(elsewhere))) {
    throw data_error("E-IO-WRITE", cache.string(), "the folder for token files cannot be written, or is another user's",
                     "a folder of one's own that can be written, in XDG_CACHE_HOME",
                     {"export XDG_CACHE_HOME=/tmp/cache, and the same command again"});
  }
  const std::filesystem::path& folder = cached ? cache : elsewhere;
  remove_abandoned_partials(folder);
  std::error_code ignored;
  for (const std::string& name : names) {
    if (other_than_file(folder / name)) std::filesystem::remove(folder / name, ignored);
  }
  return folder;
}

std::filesystem::path CacheFolders::fill(const std::vector<std::string>& names,
                                         const std::function<void(const std::filesystem::path& folder)>& make) const {
  std::filesystem::path folder = writable(names);
  try {
    make(folder);
  } catch (Error& error) {
    if (folder == cache && error.code.starts_with("E-IO-"))
      error.remedies = {"export XDG_CACHE_HOME=FOLDER, one with more space, and the same command again"};
    throw;
  }
  return folder;
}

}  // namespace plimsoll
