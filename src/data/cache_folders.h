// Where files that follow from the data are kept: a cache, and another folder for where that cannot be written.
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

  // A file of that name in one of them that only this user can have written.
  std::optional<File> find(const std::string& name) const;
  // The first that can be written and is this user's own, made where it is absent; what killed processes left there is removed.
  // So is what lies in place of files of these names. E-IO-WRITE where none is.
  std::filesystem::path writable(const std::vector<std::string>& names) const;
  // An error of writing there, with a remedy.
  void advise(Error& error, const std::filesystem::path& folder) const;
};

}  // namespace plimsoll
