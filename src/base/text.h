// Small text helpers: lines of a text, the nearest name to a misspelt one, numbers that round-trip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// The first candidate with the smallest edit distance to `name`; "" if all are too far. The limit is a quarter of the letters of
// `name`, but at least two edits, or one edit for up to four letters. It is always less than the number of letters.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// Takes the first line off `text` and returns it without its break ("\n" or "\r\n").
std::string_view next_line(std::string_view& text);

// Digits in groups, such as 124,439,808, of a number >= 0.
std::string grouped(std::int64_t number);

// The 16 hex digits of the bits of an fp64.
std::string bits_hex(double value);

}  // namespace plimsoll
