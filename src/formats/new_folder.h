// Names of new folders, and their creation.
#pragma once

#include <filesystem>

namespace plimsoll {

// "run-2" next to "run", or the first free number after it.
std::filesystem::path new_folder_beside(const std::filesystem::path& folder);

// Creates the folder and its missing parents. data_error E-IO-WRITE.
void create_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
