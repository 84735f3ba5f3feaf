// A folder that is replaced as a whole: its new content is written in a folder aside, beside it, brought to the disk, and the two
// are exchanged in one step. Whoever opens the folder gets the old or the new one, whatever happens meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace plimsoll {

class AtomicFolder {
 public:
  // Makes the folder aside, empty. Removes what killed processes have left of such folders of the same target. data_error
  // E-IO-WRITE where the folder that holds the target is missing or cannot be written. A target that is a link means what the
  // link leads to.
  explicit AtomicFolder(const std::filesystem::path& target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The folder for the new content.
  const std::filesystem::path& path() const { return aside_; }
  // Takes over what lies in `from` and is not left out. From the target itself files are linked where the file system has links,
  // else copied, and links stay links; of another folder they are followed. An absent `from` has nothing.
  void keep(const std::filesystem::path& from, const std::function<bool(const std::string& name)>& left_out) const;

  // `renames`: for file systems that exchange nothing. The target is absent for a moment; recover_folder mends a crash then.
  enum class Swap : std::uint8_t { exchange, renames };
  // Makes the target what lies aside. Without it the destructor discards that. Every failure is data_error E-IO-WRITE and leaves
  // the target as it was.
  void commit(Swap swap = Swap::exchange);

 private:
  [[noreturn]] void fail(const std::filesystem::path& path, const std::string& action, int error) const;
  void swap_by_renames();

  std::filesystem::path target_, aside_;
  int lock_ = -1;
};

// Puts a folder back that a killed process has moved away and not replaced yet, and removes what such processes left beside it.
// `sole`: nobody else writes it now, whatever locks and process numbers say.
void recover_folder(const std::filesystem::path& target, bool sole = false);

}  // namespace plimsoll
