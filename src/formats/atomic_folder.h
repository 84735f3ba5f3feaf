// A folder that is replaced as a whole. The new content goes into a temporary folder next to the target and is synced; then the
// two folders are exchanged in one step. A reader gets the old folder or the new one, even after a crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace plimsoll {

class AtomicFolder {
 public:
  // Makes the temporary folder. Removes the temporary folders of killed processes for the same target. A link as target stands
  // for the folder to which it leads. data_error E-IO-WRITE if the parent folder is missing or not writable.
  explicit AtomicFolder(const std::filesystem::path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The folder for the new content.
  const std::filesystem::path& path() const { return aside_; }
  // Takes over the entries of `from` that are not left out; nothing if `from` is absent. Files of the target itself are linked if
  // the file system has hard links, else copied, and its links stay links. Links of any other folder are followed.
  void keep(const std::filesystem::path& from, const std::function<bool(const std::string& name)>& left_out) const;

  // `renames`: for file systems without an exchange. The target is absent for a moment; recover_folder() repairs a crash then.
  enum class Swap : std::uint8_t { exchange, renames };
  // Puts the new folder in the place of the target. Without a commit the destructor discards it. Every failure is data_error
  // E-IO-WRITE and leaves the target unchanged.
  void commit(Swap swap = Swap::exchange);

 private:
  [[noreturn]] void fail(const std::filesystem::path& path, const std::string& action, int error) const;
  void swap_by_renames();

  std::filesystem::path target_, aside_;
  int lock_ = -1;
};

// Restores a folder that a killed process moved aside without a replacement, and removes the temporary folders of such processes.
// `sole`: no other process writes the target now, so locks and process numbers are ignored.
void recover_folder(const std::filesystem::path& target, bool sole = false);

}  // namespace plimsoll
