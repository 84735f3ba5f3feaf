// The folders for files made from the data: a cache, and a second folder in case the cache is not writable.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/file_stamp.h"

namespace plimsoll {

struct CacheFolders {
  std::filesystem::path cache;
  std::filesystem::path elsewhere;  // empty: nowhere

  // The file of this name in one of the folders, if nobody but this user can have written it.
  std::optional<File> find(const std::string& name) const;
  // Calls make(folder) for the first writable folder that belongs to this user, made if it is absent, and returns that folder.
  // Removes the remains of killed processes, and anything that blocks files of these names. E-IO-WRITE if there is no such
  // folder.
  std::filesystem::path fill(const std::vector<std::string>& names,
                             const std::function<void(const std::filesystem::path& folder)>& make) const;

 private:
  std::filesystem::path writable(const std::vector<std::string>& names) const;
};

}  // namespace plimsoll
