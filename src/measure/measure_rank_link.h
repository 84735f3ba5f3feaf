// The link between the ranks of a training, measured by exchanges among all of them, and the file that keeps it. The file lies
// beside those of the machine: the link depends neither on threads nor on libraries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "collective/peers.h"
#include "plan/machine.h"

namespace plimsoll {

// Called by all ranks, with events and parts for a gather. The rate is that of one rank in each direction while all ranks send
// and receive, as in a training; the slowest rank counts. All return the same link.
RankLink measure_rank_link(Peers& peers, std::uint32_t event);

// E-IO-WRITE.
void keep_rank_link(const std::filesystem::path& cache_folder, const RankLink& link);
// Nothing if none was measured.
std::optional<RankLink> kept_rank_link(const std::filesystem::path& cache_folder);

}  // namespace plimsoll
