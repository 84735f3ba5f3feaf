#include "collective/gather.h"

namespace plimsoll {

Gather::Gather(Peers& peers, std::uint32_t event, std::size_t bytes)
    : peers_(peers), event_(event), bytes_(bytes), all_(bytes * static_cast<std::size_t>(peers.count())) {
  for (int rank = 0; rank < peers.count(); ++rank) {
    if (rank == peers.rank()) continue;
    sends_.push_back({rank, mine()});
    receives_.push_back({rank, of(rank)});
  }
}

void Gather::run() {
  peers_.start(event_, {sends_, receives_});
  peers_.wait(event_);
}

}  // namespace plimsoll
