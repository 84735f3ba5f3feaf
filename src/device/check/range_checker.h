// The `check` device: replays the stated reads and writes of instructions byte by byte, independent of the plan's lifetimes. Each
// byte has the value that was written to it last. A read of a value must find that value in all of its bytes; otherwise it throws
// an internal error with the instruction.
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

  // The name of the instruction; called only for errors.
  using Describe = std::function<std::string()>;

  // `tag`: the value in [offset, offset + bytes) from now on; kNothing for scratch, which no instruction may read later.
  void write(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction);
  void read(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction) const;

 private:
  struct Range {
    std::int64_t end;
    std::uint32_t tag;
  };
  void split(std::int64_t at);

  std::map<std::int64_t, Range> ranges_;  // by begin; together they cover the arena
};

}  // namespace plimsoll
