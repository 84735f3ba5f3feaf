// Folders that only this user can have filled. A cache may lie in a folder that all users share, and what is read from it is
// trusted like the program itself.
#pragma once

#include <filesystem>

namespace plimsoll {

// True if the folder, and a link that leads to it, belongs to this user and nobody else may write into it. A folder of this user
// that others may write into is closed to them first. False if there is no folder.
bool is_own_folder(const std::filesystem::path& folder);

// Makes the folder, and those above it, where it is absent; nobody else may write into it, whatever the umask is. False where it
// is not there afterwards, cannot be written, or is another user's.
bool make_own_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
