// The `check` device: replays what instructions say they read and write, byte by byte, without knowing the plan's lifetimes. Each
// byte remembers which value was written to it last; a read of a value finds it whole or throws an internal error with the
// instruction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/bytes.h"

namespace plimsoll {

class RangeChecker {
 public:
  static constexpr std::uint32_t kNothing = 0xFFFFFFFF;

  explicit RangeChecker(Bytes arena) { ranges_[0] = {arena.n, kNothing}; }

  // Names the instruction; called only where a rule is broken.
  using Describe = std::function<std::string()>;

  // `tag` is the value now in [offset, offset + bytes); kNothing for scratch, whose contents are nobody's afterwards.
  void write(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction);
  void read(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction) const;

 private:
  struct Range {
    std::int64_t end;
    std::uint32_t tag;
  };
  void split(std::int64_t at);

  std::map<std::int64_t, Range> ranges_;  // by begin; they tile the arena
};

}  // namespace plimsoll
