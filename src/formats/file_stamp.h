// Tells whether a file is still the one that was looked at, and whether this user alone can have written it.
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

// As it is now. data_error E-IO-READ.
FileStamp stamp_of(const File& file);
// data_error E-DATA-CHANGED where it has another stamp by now: what was read may be neither the old content nor the new one.
void require_unchanged(const File& file, const FileStamp& since);
// The same error, where a second look found other content.
Error changed_data(std::string path);

// A file that only this user can have written: his own, no link, and nobody else may write it. Nothing where the path names none.
std::optional<File> open_own_file(const std::filesystem::path& path);

}  // namespace plimsoll
