#include "prepare/boundary.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

struct Side {
  std::int64_t number;
  std::optional<double> needs;
};

// Where the line from one side to the other meets the room; nothing where there is no such line.
std::optional<std::int64_t> crossing(const Side& fits, const Side& not_any_more, double room) {
  if (!fits.needs || !not_any_more.needs || *not_any_more.needs <= *fits.needs) return {};
  const double share = (room - *fits.needs) / (*not_any_more.needs - *fits.needs);
  const double width = static_cast<double>(not_any_more.number - fits.number);
  return fits.number + static_cast<std::int64_t>(std::floor(std::clamp(share, 0.0, 1.0) * width));
}

}  // namespace

std::optional<std::int64_t> last_that_fits(std::int64_t start, double room, const std::function<Tried(std::int64_t)>& attempt) {
  std::optional<Side> below, above;
  const auto look = [&](std::int64_t number) {
    const Tried tried = attempt(number);
    (tried.fits ? below : above) = Side{number, tried.needs};
  };
  look(start);
  while (!above) look(2 * below->number + 1);
  if (!below && start > 0) look(0);
  if (!below) return {};
  for (int in_vain = 0; above->number - below->number > 1;) {
    constexpr int kPatience = 2;  // lines that did not halve the stretch, one after the other
    const std::int64_t width = above->number - below->number, middle = below->number + width / 2;
    const std::optional<std::int64_t> line = in_vain < kPatience ? crossing(*below, *above, room) : std::nullopt;
    look(std::clamp(line.value_or(middle), below->number + 1, above->number - 1));
    in_vain = 2 * (above->number - below->number) > width ? in_vain + 1 : 0;
  }
  return below->number;
}

std::optional<std::int64_t> first_that_fits(std::int64_t most, const std::function<Enough(std::int64_t)>& attempt) {
  std::int64_t enough = most, too_few = -1;
  const auto look = [&](std::int64_t number) {
    const Enough tried = attempt(number);
    (tried.fits ? enough : too_few) = number;
    return tried;
  };
  Enough last = look(most);
  if (!last.fits) return {};
  while (enough - too_few > 1) {
    const bool jumps = last.fits && last.used > too_few && last.used < enough;
    last = look(jumps ? last.used : too_few + (enough - too_few) / 2);
  }
  return enough;
}

}  // namespace plimsoll
