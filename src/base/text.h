// Small text helpers for messages: the nearest name to a misspelt one, numbers that round-trip.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// The candidate with the smallest edit distance to `name`, the first of several; "" where none is within a quarter of the
// length of `name` (two edits for short ones, one for four letters and less) or where nothing of `name` would be left.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// The 16 hex digits of the bits of an fp64.
std::string bits_hex(double value);

}  // namespace plimsoll
