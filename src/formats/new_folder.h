// A name for a new folder.
#pragma once

#include <filesystem>

namespace plimsoll {

// "run-2" beside "run", or the next number that is free.
std::filesystem::path new_folder_beside(const std::filesystem::path& folder);

}  // namespace plimsoll
