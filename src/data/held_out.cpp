#include "data/held_out.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace plimsoll {

bool is_held_out(std::span<const std::byte> content, double share) {
  if (share == 0) return false;
  const std::uint64_t hash = Hasher().add(content).low64();
  return static_cast<double>(hash >> 11) * 0x1p-53 < share;
}

void require_both_sides(const DataPaths& paths, std::string_view what, std::int64_t train, std::int64_t held_out,
                        std::string instead) {
  if (train > 0 && held_out > 0) return;
  throw data_error("E-DATA-VALIDATION", paths.text(),
                   fmt::format("of its {} {} are for training and {} held out", what, train, held_out), "some of both",
                   {Remedy(Change("data.validation", "FILE"), std::move(instead))});
}

}  // namespace plimsoll
