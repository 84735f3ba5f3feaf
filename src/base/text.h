// Small text helpers: lines of a text, the nearest name to a misspelt one, numbers that round-trip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// The candidate with the smallest edit distance to `name`, the first of several; "" where none is within a quarter of the
// length of `name` (two edits for short ones, one for four letters and less) or where nothing of `name` would be left.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// The first line without its break ("\n" or "\r\n"), which is taken off `text`.
std::string_view next_line(std::string_view& text);

// 124,439,808; the number is not negative.
std::string grouped(std::int64_t number);

// The 16 hex digits of the bits of an fp64.
std::string bits_hex(double value);

}  // namespace plimsoll
