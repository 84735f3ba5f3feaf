// Folders for what rests on a disk. Some systems mount their folder for temporary files as a tmpfs, which is memory.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/remedy.h"

namespace plimsoll {

// True if the files of a folder take memory: it lies on a tmpfs or ramfs. A folder that does not exist yet is judged by its
// nearest existing parent.
bool lies_in_memory(const std::filesystem::path& folder);

// A disk budget for remedies, with a size such as "16GiB": a folder for temporary files that lies on a disk, else one here.
Change advised_disk(std::string_view size);

}  // namespace plimsoll
