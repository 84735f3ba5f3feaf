#include "device/disk/disk_budget.h"

#include <unistd.h>

#include <string>
#include <system_error>

#include "base/disk_folder.h"
#include "base/error.h"

namespace plimsoll {
namespace {

Error disk_folder_error(const DiskBudget& disk, const std::string& why) {
  return data_error("E-DISK-FOLDER", disk.folder.string(), "the folder of the disk budget cannot be created: " + why,
                    "a folder, or a new one in a folder that exists and can be written",
                    {advised_disk(std::to_string(disk.size.n))});
}

}  // namespace

void create_disk_folder(const DiskBudget& disk) {
  std::error_code failure;
  std::filesystem::create_directory(disk.folder, failure);
  std::error_code ignored;
  if (!std::filesystem::is_directory(disk.folder, ignored)) throw disk_folder_error(disk, failure.message());
}

void check_disk_folder(const DiskBudget& disk) {
  std::error_code ignored;
  if (std::filesystem::is_directory(disk.folder, ignored)) return;
  if (std::filesystem::exists(disk.folder, ignored)) throw disk_folder_error(disk, "it is no folder");
  const std::filesystem::path& folder = disk.folder;
  const std::filesystem::path parent = folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  if (!std::filesystem::is_directory(parent, ignored)) throw disk_folder_error(disk, "there is no folder " + parent.string());
  if (::access(parent.c_str(), W_OK | X_OK) != 0) throw disk_folder_error(disk, parent.string() + " is not writable");
}

}  // namespace plimsoll
