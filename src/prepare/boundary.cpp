#include "prepare/boundary.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

struct Side {
  std::int64_t number;
  std::optional<double> needs;
};

// The case where the line through two cases meets the room, up to `most`; nothing if the line does not rise.
//
//   needs            high
//     |             /
//    room - - - - x - - - -     x: the next case to try
//     |         /
//     |      low
//     +--------------------- number of the case
std::optional<std::int64_t> crossing(const Side& low, const Side& high, double room, std::int64_t most) {
  if (!low.needs || !high.needs || *high.needs <= *low.needs) return {};
  const double share = (room - *low.needs) / (*high.needs - *low.needs);
  const double width = static_cast<double>(high.number - low.number), widest = static_cast<double>(most - low.number);
  return low.number + static_cast<std::int64_t>(std::floor(std::clamp(share * width, 0.0, widest)));
}

// A case that should no longer fit, a sixteenth past the line through two that do: needs bend upwards rather than down.
std::int64_t beyond(const std::optional<Side>& before, const Side& last, double room) {
  constexpr std::int64_t kFarthest = 32;
  const std::int64_t twice = 2 * last.number + 1;
  if (!before) return twice;
  const std::int64_t line = crossing(*before, last, room, kFarthest * last.number).value_or(0);
  return std::max(twice, line + line / 16);
}

}  // namespace

std::optional<std::int64_t> last_that_fits(std::int64_t start, double room, const std::function<Tried(std::int64_t)>& attempt) {
  std::optional<Side> before, below, above;
  const auto look = [&](std::int64_t number) {
    const Tried tried = attempt(number);
    if (tried.fits) before = below;
    (tried.fits ? below : above) = Side{number, tried.needs};
    return tried.fits;
  };
  look(start);
  while (!above) look(beyond(before, *below, room));
  if (!below && start > 0) look(0);
  if (!below) return {};
  // The Illinois algorithm: a side that stays pulls the line half as strongly as before.
  double pull_below = 1, pull_above = 1;
  std::optional<bool> fitted;
  for (int in_vain = 0; above->number - below->number > 1;) {
    constexpr int kPatience = 3;  // lines that did not halve the stretch, one after the other
    const std::int64_t width = above->number - below->number, middle = below->number + width / 2;
    const auto pulled = [&](const Side& side, double pull) {
      return side.needs ? Side{side.number, room + (*side.needs - room) * pull} : side;
    };
    const std::optional<std::int64_t> line =
        in_vain < kPatience ? crossing(pulled(*below, pull_below), pulled(*above, pull_above), room, above->number)
                            : std::nullopt;
    const bool fits = look(std::clamp(line.value_or(middle), below->number + 1, above->number - 1));
    (fits ? pull_below : pull_above) = 1;
    if (fits == fitted) (fits ? pull_above : pull_below) /= 2;
    fitted = fits;
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
