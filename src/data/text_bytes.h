// Counts the bytes that belong to no UTF-8 character, to tell text from other bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

struct Utf8Count {
  std::int64_t bytes = 0;
  std::int64_t invalid = 0;  // bytes in no character
};

// Counts over the pieces of a text, which may end within a character.
class Utf8Meter {
 public:
  void add(std::span<const std::byte> piece);
  // The count over all pieces. A character cut by the end of the last piece is invalid.
  Utf8Count finish() const;

 private:
  Utf8Count count_;
  std::string left_;  // the first bytes of a character, up to three
};

}  // namespace plimsoll
