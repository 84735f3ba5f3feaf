// Tier 1 of a program: the page file with the pieces that its copies move.
#pragma once

#include <filesystem>
#include <memory>

#include "device/disk/page_file.h"
#include "program/program.h"

namespace plimsoll {

// Null where the program keeps everything in one tier. Throws E-PLAN-CHANGED where the planned engine is refused now: another one
// needs other bytes.
std::unique_ptr<PageFile> open_pages(const Program& program, const std::filesystem::path& folder, TransferEngine engine);

}  // namespace plimsoll
