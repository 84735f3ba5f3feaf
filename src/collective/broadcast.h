// A text of one rank for all others. Texts are long and rare: this allocates.
#pragma once

#include <cstdint>
#include <string>

#include "collective/peers.h"

namespace plimsoll {

// Called by all ranks. Returns the text of `root`. It uses one event, which is reserved by the caller.
std::string broadcast(Peers& peers, std::uint32_t event, int root, std::string text);

}  // namespace plimsoll
