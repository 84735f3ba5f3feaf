// The check that the disk of a run's folder has room for its files (prepare/run_room.h).
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "prepare/run_room.h"
#include "records/run_folder.h"

namespace plimsoll {

// Free bytes for this user at an existing or future path; nothing if the file system does not report them.
std::optional<Bytes> free_bytes(const std::filesystem::path& path);

// E-RUN-ROOM (exit 5) without enough free bytes. Replaced files of an earlier part of the run count as free. `pages`: bytes of a
// page file in `pages_in`, possibly on the same file system. `elsewhere`: places to propose; the first with room is named.
void check_room(const RunFolder& folder, const RunRoom& room, Bytes pages, const std::filesystem::path& pages_in,
                const std::vector<std::filesystem::path>& elsewhere);
// E-IO-WRITE if this process may not write files of that size (ulimit -f).
void check_file_limit(const RunFolder& folder, const RunRoom& room);

}  // namespace plimsoll
