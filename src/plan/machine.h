// The machine that a plan is for, as data: tiers and links, peak rates, and what a process needs outside its arena. The
// calibration (`plimsoll machine`) writes it to a file; planning for a machine needs only this file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/open_list.h"
#include "base/transfer_engine.h"
#include "graph/roofline.h"

namespace plimsoll {

// The processors that run kernels.
enum class Backend : std::uint8_t { cpu, cuda };
std::string_view name(Backend backend);

// A kind of place where values rest: the memory in which kernels run, the memory of its host, a disk.
enum class TierKind : std::uint8_t { compute, host, disk };

template <class T>
using PerTier = OpenList<T>;

// The first tier of a machine computes. Values move to the others over links; the nearest comes first.
struct Tier {
  TierKind kind = TierKind::compute;
  std::string name;  // for people: "ram", "device", "host", "disk"
  Bytes capacity;
  TransferEngine transfers = TransferEngine::threads;  // to and from a disk
};

struct Link {
  std::size_t from = 0, to = 0;  // indices of tiers
  double bytes_per_second = 0;   // while the other direction is as busy
  double latency_seconds = 0;
  bool beside_compute = true;
  double alone_bytes_per_second = 0;                 // while the other direction is idle; 0: the same
  std::optional<double> alone_latency_seconds = {};  // likewise; none: the same
  // Kernel seconds lost to concurrent transfers. Per byte: the processors that move and check it, and memory bandwidth. Per
  // piece: the calls and the thread wake-ups.
  double kernel_seconds_per_byte = 0, kernel_seconds_per_piece = 0;
  // Delay of a piece after its time on the link, per piece and per byte: its check and its wait overlap with later pieces.
  double tail_seconds = 0, tail_seconds_per_byte = 0;

  double alone() const { return std::max(bytes_per_second, alone_bytes_per_second); }
  double alone_latency() const { return std::min(latency_seconds, alone_latency_seconds.value_or(latency_seconds)); }
};

// The link between ranks that train together: the rate of one of them, in each direction.
struct RankLink {
  double bytes_per_second = 1e9, latency_seconds = 5e-5;
  bool assumed = true;  // not measured
};

// Bytes of a tier outside the arena, as a linear model whose terms are measured on the machine.
struct ReserveModel {
  Bytes code;           // executable, libraries and their data after every instruction has run once
  Bytes per_primitive;  // generated code and handles of one distinct library kernel
  Bytes per_step;       // heap of one instruction and its graph node
  Bytes threads;        // stacks and per-thread state of the team and the data thread
  Bytes slack;          // error of resident bytes: the system adds up its counters per processor late
  Bytes peers;          // messages between ranks; 0 in a process that trains alone
  bool peers_assumed = false;
  Bytes per_launch;  // one kernel in a graph that a GPU keeps; on its host also one copy
};

struct ReserveItem {
  std::string name;
  Bytes bytes;
  std::string source;  // "measured", "counted", "bound", "assumed"
};

struct Machine {
  std::string name;
  Backend backend = Backend::cpu;
  std::string instruction_set;  // for people; name(backend) for a GPU
  std::vector<std::string> libraries;
  int threads = 1;
  std::vector<Tier> tiers;
  std::vector<Link> links;
  Roofline rates;
  ReserveModel reserve;       // of the tier that computes
  ReserveModel host_reserve;  // of the host process of a device; all zero if not measured
  RankLink rank_link;
  std::string hash;  // of all above without the capacities
};

// The buffer that reads new checkpoints back.
inline constexpr Bytes kReadBack{256 << 10};
// The name of its ReserveItem.
inline constexpr std::string_view kReadBackItem = "reading checkpoints back";

// The counts of a program that the reserve depends on; launches are those in kept graphs.
struct ReserveCounts {
  std::int64_t primitives = 0, steps = 0, launches = 0;
  Bytes encoding = {};  // of frozen matrices, while they are loaded
  Bytes reading = {};   // of the buffer that reads checkpoints back
  Bytes answers = {};   // of the prompts, texts and vocabulary of answers
};
// The bytes that such a program needs outside its arena.
std::vector<ReserveItem> reserve_items(const ReserveModel& model, const ReserveCounts& counts, Bytes arena);
// The nearest tier of a kind past the first; 0: none.
std::size_t tier_of(const std::vector<Tier>& tiers, TierKind kind);
inline std::size_t disk_of(const Machine& machine) { return tier_of(machine.tiers, TierKind::disk); }
inline bool has_host(const Machine& machine) { return tier_of(machine.tiers, TierKind::host) != 0; }
// The link between two tiers; null: none.
const Link* link_between(const Machine& machine, std::size_t from, std::size_t to);

// The ways from tier 0 to the other tiers.
struct Ways {
  struct Pair {
    const Link *in, *out;  // towards tier 0, and away from it
  };
  std::vector<Pair> links;
  std::vector<std::vector<std::size_t>> of;  // by tier: the links that its values pass, nearest first; empty: no way

  // The same for any tier; none for one that the machine lacks.
  std::span<const std::size_t> to(std::size_t tier) const {
    return tier < of.size() ? std::span<const std::size_t>(of[tier]) : std::span<const std::size_t>();
  }
  bool passes(std::size_t tier, std::size_t link) const { return std::ranges::find(to(tier), link) != to(tier).end(); }
};
// Ways over links in both directions. The machine outlives them.
Ways find_ways(const Machine& machine);
// The transfer engine of the disk; threads without a disk.
TransferEngine transfers_of(const Machine& machine);
Bytes total(const std::vector<ReserveItem>& items);

}  // namespace plimsoll
