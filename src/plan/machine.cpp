#include "plan/machine.h"

#include <algorithm>

namespace plimsoll {

std::vector<ReserveItem> reserve_items(const ReserveModel& model, const ReserveCounts& counts, Bytes arena) {
  std::vector<ReserveItem> items{{"code and libraries", model.code, "measured"},
                                 {"generated kernels", model.per_primitive * counts.primitives, "counted"},
                                 {"graph and program", model.per_step * counts.steps, "counted"},
                                 {"threads", model.threads, "measured"},
                                 {"page rounding of the arena", align_up(arena, kPage) - arena, "counted"},
                                 {"counter slack", model.slack, "bound"}};
  if (counts.encoding.n > 0) items.push_back({"scales while encoding", counts.encoding, "counted"});
  if (counts.reading.n > 0) items.push_back({std::string(kReadBackItem), counts.reading, "counted"});
  if (counts.answers.n > 0) items.push_back({"prompts and vocabulary", counts.answers, "bound"});
  if (model.peers.n > 0) items.push_back({"messages between ranks", model.peers, model.peers_assumed ? "assumed" : "measured"});
  if (model.per_launch.n > 0) items.push_back({"graphs of the GPU", model.per_launch * counts.launches, "bound"});
  return items;
}

std::string_view name(Backend backend) { return backend == Backend::cuda ? "cuda" : "cpu"; }

const Link* link_between(const Machine& machine, std::size_t from, std::size_t to) {
  if (std::max(from, to) >= machine.tiers.size()) return nullptr;
  for (const Link& link : machine.links) {
    if (link.from == from && link.to == to) return &link;
  }
  return nullptr;
}

std::size_t tier_of(const std::vector<Tier>& tiers, TierKind kind) {
  for (std::size_t i = 1; i < tiers.size(); ++i) {
    if (tiers[i].kind == kind) return i;
  }
  return 0;
}

Ways find_ways(const Machine& machine) {
  Ways ways{{}, std::vector<std::vector<std::size_t>>(machine.tiers.size())};
  std::vector<std::size_t> reached{0};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::size_t near = reached[i];
    for (std::size_t far = 1; far < machine.tiers.size(); ++far) {
      const auto *in = link_between(machine, far, near), *out = link_between(machine, near, far);
      if (!ways.of[far].empty() || in == nullptr || out == nullptr) continue;
      ways.of[far] = ways.of[near];
      ways.of[far].push_back(ways.links.size());
      ways.links.push_back({in, out});
      reached.push_back(far);
    }
  }
  return ways;
}

TransferEngine transfers_of(const Machine& machine) {
  const std::size_t disk = disk_of(machine);
  return disk > 0 ? machine.tiers[disk].transfers : TransferEngine::threads;
}

Bytes total(const std::vector<ReserveItem>& items) {
  Bytes sum;
  for (const ReserveItem& item : items) sum += item.bytes;
  return sum;
}

}  // namespace plimsoll
