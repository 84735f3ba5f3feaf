#include "base/disk_folder.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/core.h>

#include <initializer_list>

namespace plimsoll {
namespace {

constexpr long kRamfs = 0x858458f6;

}  // namespace

bool lies_in_memory(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder, error);
  struct statfs facts {};
  while (::statfs(at.c_str(), &facts) != 0) {
    if (!at.has_relative_path()) return false;
    at = at.parent_path();
  }
  return facts.f_type == TMPFS_MAGIC || facts.f_type == kRamfs;
}

Change advised_disk(std::string_view size) {
  for (const char* folder : {"/tmp", "/var/tmp"}) {
    if (::access(folder, W_OK | X_OK) == 0 && !lies_in_memory(folder))
      return {"memory.disk", fmt::format("{}/plimsoll:{}", folder, size)};
  }
  return {"memory.disk", fmt::format("plimsoll-pages:{}", size)};
}

}  // namespace plimsoll
