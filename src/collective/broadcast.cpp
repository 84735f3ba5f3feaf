#include "collective/broadcast.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "collective/gather.h"

namespace plimsoll {

std::string broadcast(Peers& peers, std::uint32_t event, int root, std::string text) {
  const std::uint64_t size = gather<std::uint64_t>(peers, event, text.size())[static_cast<std::size_t>(root)];
  if (peers.rank() != root) text.resize(size);
  const std::span bytes = std::as_writable_bytes(std::span(text));
  constexpr auto kMost = static_cast<std::uint64_t>(Peers::kMostBytes.n);
  for (std::uint64_t done = 0; done < size; done += kMost) {
    const std::span piece = bytes.subspan(done, std::min(kMost, size - done));
    std::vector<Peers::Send> sends;
    std::vector<Peers::Receive> receives;
    if (peers.rank() != root) receives.push_back({root, piece});
    for (int rank = 0; rank < peers.count() && peers.rank() == root; ++rank) {
      if (rank != root) sends.push_back({rank, piece});
    }
    peers.start(event, {sends, receives});
    peers.wait(event);
  }
  return text;
}

}  // namespace plimsoll
