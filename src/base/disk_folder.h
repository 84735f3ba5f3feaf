// Folders on a disk. Some systems mount their temporary folder as a tmpfs, which is memory.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/remedy.h"

namespace plimsoll {

// True if files of the folder take memory: it is on a tmpfs or ramfs. A missing folder counts as its nearest existing parent.
bool lies_in_memory(const std::filesystem::path& folder);

// The change of memory.disk that remedies advise. `size`: such as "16GiB". The folder is a temporary one on a disk, else a
// subfolder of the current one.
Change advised_disk(std::string_view size);

}  // namespace plimsoll
