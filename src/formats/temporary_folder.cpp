#include "formats/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"

namespace plimsoll {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string pattern = (parent / ("plimsoll-" + std::string(6, 'X'))).string();  // the system replaces these
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw data_error("E-IO-WRITE", pattern, "no temporary folder can be made there",
                     "a folder that can be written, with free space");
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace plimsoll
