// A folder that is removed with its content by the destructor. It is locked as long as it lives, so that other processes
// recognise the folder of a killed one.
#pragma once

#include <filesystem>
#include <string_view>

namespace plimsoll {

class TemporaryFolder {
 public:
  // A new folder in `parent`. data_error E-IO-WRITE if it cannot be created.
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

// Removes such folders of killed processes directly in `parent`, in which no other program may use the same names.
void remove_abandoned_folders(const std::filesystem::path& parent);

}  // namespace plimsoll
