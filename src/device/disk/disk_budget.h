// The disk that a training may use: a folder and how many bytes of it, and who moves them.
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

// Creates the folder of a disk budget where its parent exists; data_error E-DISK-FOLDER otherwise.
void create_disk_folder(const DiskBudget& disk);
// E-DISK-FOLDER where that would fail, as far as can be seen; creates nothing.
void check_disk_folder(const DiskBudget& disk);

}  // namespace plimsoll
