// Folders that only this user can have filled. A cache may lie in a folder shared by all users, and the program trusts the files
// of a cache.
#pragma once

#include <filesystem>

namespace plimsoll {

// True if the folder belongs to this user and nobody else may write into it. Write permissions of others are removed first. A
// link to it must belong to this user or to root. False if there is no folder.
bool is_own_folder(const std::filesystem::path& folder);

// Creates the folder and its missing parents, not writable for others whatever the umask is. False if the result is absent, not
// writable, or another user's.
bool make_own_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
