#include "collective/together.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error_text.h"
#include "collective/broadcast.h"
#include "collective/gather.h"

namespace plimsoll {

void share_error(Peers& peers, std::uint32_t event, const std::optional<Error>& error) {
  const std::vector<char> failed = gather(peers, event, static_cast<char>(error.has_value()));
  const auto first = std::ranges::find(failed, 1);
  if (first == failed.end()) return;
  const auto rank = static_cast<int>(first - failed.begin());
  const std::string text = broadcast(peers, event, rank, error ? text_of(*error) : std::string());
  if (rank == peers.rank()) throw Error(*error);
  std::optional<Error> other = error_from(text);
  if (!other) other = internal_error("rank", "the report of an error is cut off");
  throw Error(*other);
}

}  // namespace plimsoll
