// The machine that a plan is for, as data: tiers and links, peak rates, and what a process needs outside its arena. Measured by
// `plimsoll machine` and kept in a file; planning for a machine needs only this.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/transfer_engine.h"
#include "graph/roofline.h"

namespace plimsoll {

// At most: a device, the memory of its host, a disk.
inline constexpr std::size_t kMostTiers = 3;

struct Tier {
  std::string name;  // "ram", "device", "host", "disk"; the first one computes, the others are ever farther from it
  Bytes capacity;
  TransferEngine transfers = TransferEngine::threads;  // to and from a disk
};

struct Link {
  std::string from, to;
  double bytes_per_second = 0;  // while the other way is as busy
  double latency_seconds = 0;
  bool beside_compute = true;
  double alone_bytes_per_second = 0;                 // while the other way is idle; 0: the same
  std::optional<double> alone_latency_seconds = {};  // likewise; none: the same
  // What kernels lose for what passes beside them: for each byte the processors that move and check it and the memory's
  // bandwidth, for each piece the calls and the threads that wake.
  double kernel_seconds_per_byte = 0, kernel_seconds_per_piece = 0;
  // A piece is there so much later than its share of the link is over, for it and for each of its bytes: it is checked and
  // waited for while others are on their way.
  double tail_seconds = 0, tail_seconds_per_byte = 0;

  double alone() const { return std::max(bytes_per_second, alone_bytes_per_second); }
  double alone_latency() const { return std::min(latency_seconds, alone_latency_seconds.value_or(latency_seconds)); }
};

// Bytes of a tier outside the arena, as a linear model whose terms are measured on the machine.
struct ReserveModel {
  Bytes code;           // executable, libraries and their data after every instruction has run once
  Bytes per_primitive;  // generated code and handles of one distinct library kernel
  Bytes per_step;       // heap of one instruction and its graph node
  Bytes threads;        // stacks and per-thread state of the team and the data thread
  Bytes slack;          // the kernel's per-CPU counters are flushed late
  Bytes per_launch;     // a kernel in a graph that a GPU keeps; on a host a copy as well
};

struct ReserveItem {
  std::string name;
  Bytes bytes;
  std::string source;  // "measured", "counted", "bound"
};

inline constexpr const char* kCudaInstructions = "cuda";

struct Machine {
  std::string name;
  std::string instruction_set;  // kCudaInstructions: a GPU runs the kernels
  std::vector<std::string> libraries;
  int threads = 1;
  std::vector<Tier> tiers;
  std::vector<Link> links;
  Roofline rates;
  ReserveModel reserve;       // of the tier that computes
  ReserveModel host_reserve;  // of the process behind a device; all zero where nobody measured it
  std::string hash;           // of everything above
};

// What is counted of a program; launches are those that are kept.
struct ReserveCounts {
  std::int64_t primitives = 0, steps = 0, launches = 0;
  Bytes encoding = {};  // of frozen matrices, while they are loaded
};
// What such a program needs outside its arena.
std::vector<ReserveItem> reserve_items(const ReserveModel& model, const ReserveCounts& counts, Bytes arena);
// Whether what leaves the memory of the kernels rests in that of a host first.
bool has_host(const Machine& machine);
// The tier that is a disk; 0: none.
std::size_t disk_of(const Machine& machine);
// The link between two tiers; null where there is none.
const Link* link_between(const Machine& machine, std::size_t from, std::size_t to);
// Tiers past the first that links lead to and from.
std::size_t linked_tiers(const Machine& machine);
// To and from the disk; threads where there is none.
TransferEngine transfers_of(const Machine& machine);
Bytes total(const std::vector<ReserveItem>& items);

}  // namespace plimsoll
