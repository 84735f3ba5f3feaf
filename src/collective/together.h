// Work that all ranks do, and that succeeds or fails on all of them.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>

#include "collective/peers.h"

namespace plimsoll {

// Called by all ranks with the error of this one, if there is one. Throws the error of the first rank that has one, on all. It
// uses one event, which is reserved by the caller.
void share_error(Peers& peers, std::uint32_t event, const std::optional<Error>& error);

template <class Work>
void together(Peers& peers, std::uint32_t event, const Work& work) {
  std::optional<Error> own;
  try {
    work();
  } catch (const Error& error) {
    own.emplace(error);
  } catch (const std::exception& error) {
    own.emplace(internal_error("rank", error.what()));
  }
  share_error(peers, event, own);
}

}  // namespace plimsoll
