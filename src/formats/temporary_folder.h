// A folder that goes with everything in it. It is locked while it lives, so that others can tell what a killed process left.
#pragma once

#include <filesystem>
#include <string_view>

namespace plimsoll {

class TemporaryFolder {
 public:
  // Below `parent`. data_error E-IO-WRITE where none can be made there.
  explicit TemporaryFolder(const std::filesystem::path& parent = "/tmp");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Removes such folders right in `parent` whose processes are gone; for a parent in which nobody else makes folders of that name.
void remove_abandoned_folders(const std::filesystem::path& parent);

}  // namespace plimsoll
