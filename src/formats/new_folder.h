// New folders: a name, and the folder itself.
#pragma once

#include <filesystem>

namespace plimsoll {

// "run-2" beside "run", or the next number that is free.
std::filesystem::path new_folder_beside(const std::filesystem::path& folder);

// Creates the folder and its parents where they are missing. data_error E-IO-WRITE.
void create_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
