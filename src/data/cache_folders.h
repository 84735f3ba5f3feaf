// Where files that follow from the data are kept: a cache, and another folder for where that cannot be written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace plimsoll {

struct CacheFolders {
  std::filesystem::path cache;
  std::filesystem::path elsewhere;  // empty: nowhere

  // A file of that name in one of them.
  std::optional<std::filesystem::path> find(const std::string& name) const;
  // The first that can be written, made where it is absent; what killed processes left there is removed. E-IO-WRITE where none
  // can.
  std::filesystem::path writable() const;
  // An error of writing there, with a remedy.
  void advise(Error& error, const std::filesystem::path& folder) const;
};

}  // namespace plimsoll
