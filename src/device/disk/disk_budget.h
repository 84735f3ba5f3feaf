// The disk that a training may use: a folder, the number of bytes, and the policy of transfers.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/bytes.h"

namespace plimsoll {

struct DiskBudget {
  std::filesystem::path folder;
  Bytes size;

  friend bool operator==(const DiskBudget&, const DiskBudget&) = default;
};

// io_uring unless it is refused, or always threads.
enum class TransferPolicy : std::uint8_t { automatic, threads };

// Creates the folder of a disk budget if its parent exists; else throws data_error E-DISK-FOLDER.
void create_disk_folder(const DiskBudget& disk);
// Throws E-DISK-FOLDER if that would fail, as far as can be told without creating anything.
void check_disk_folder(const DiskBudget& disk);

}  // namespace plimsoll
