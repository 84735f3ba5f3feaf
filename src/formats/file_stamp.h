// Checks that a file has not changed since it was opened, and that only this user can have written it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "formats/file.h"

namespace plimsoll {

// The identity and the state of a file. A write changes the size or the time.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, modified = 0;  // bytes; nanoseconds since 1970

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// The present stamp. data_error E-IO-READ.
FileStamp stamp_of(const File& file);
// data_error E-DATA-CHANGED if the file has another stamp now: the bytes read may mix the old content with the new one.
void require_unchanged(const File& file, const FileStamp& since);
// The same error for a second read with other content.
Error changed_data(std::string path);

// A file that only this user can have written: a regular file of this user, no link, not writable for others. Absent for any
// other path.
std::optional<File> open_own_file(const std::filesystem::path& path);

}  // namespace plimsoll
