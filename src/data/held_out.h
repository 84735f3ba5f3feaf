// The share of the training data that is held out for validation, chosen by a hash of the content: equal samples lie on one side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/data_paths.h"

namespace plimsoll {

// True for the content of a sample of the share.
bool is_held_out(std::span<const std::byte> content, double share);

// E-DATA-VALIDATION if one side has none of the samples. `what`: "images"; `instead`: a comment on the remedy.
void require_both_sides(const DataPaths& paths, std::string_view what, std::int64_t train, std::int64_t held_out,
                        std::string instead);

}  // namespace plimsoll
