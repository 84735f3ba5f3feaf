// The folders for files made from the data: a cache, and a second folder in case the cache is not writable.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/file_stamp.h"

namespace plimsoll {

struct CacheFolders {
  std::filesystem::path cache;
  std::filesystem::path elsewhere;  // empty: nowhere

  // The file of this name in one of the folders, if nobody but this user can have written it.
  std::optional<File> find(const std::string& name) const;
  // The first writable folder that belongs to this user, made if it is absent. Removes the remains of killed processes, and
  // anything that blocks files of these names. E-IO-WRITE if there is no such folder.
  std::filesystem::path writable(const std::vector<std::string>& names) const;
  // Adds a remedy to an error of writing there.
  void advise(Error& error, const std::filesystem::path& folder) const;
};

}  // namespace plimsoll
