// What a stretch of regions may do: which of its ops run again, and when. Each way has a price in seconds, what it holds between
// the passes and how high its own steps rise, exact to the byte for the stretch alone, whatever the others do.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/regions/regions.h"

namespace plimsoll::regions {

struct Edge {
  int end = 0;             // the region behind it
  double seconds = 0;      // of what runs again
  std::int64_t peak = 0;   // the most that is live at its steps, while all other regions keep everything
  std::int64_t saved = 0;  // what is held more between its passes than if it kept everything: negative
  std::vector<replays::Replay> replays;
};

struct EdgeLimits {
  bool keeps = true;  // keeping everything is one way
  bool some = true;   // running some ops again is
  int longest = 8;    // regions of a segment that keeps its input alone
  int local = 2;      // regions of a stretch whose ops are decided on one by one, within some bytes

  std::string text() const;  // differs where the limits do
};

// One way of a stretch, whatever lies around it.
struct Way {
  std::vector<replays::Replay> replays;
  std::vector<std::int64_t> rise;  // by position: live bytes more than where everything is kept
  std::int64_t saved;              // as of an edge
  double seconds;
};

// What stretches of equal structure may do, of problems with the same ops. Threads may share it.
struct KnownWays {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const std::vector<Way>>> of;  // by the signature of a stretch
};

// `live`: bytes at each op where everything is kept. The edges that begin at each region, none of which is beaten by another of
// the same stretch. Always one for each region alone. `known`, if given, is used and grows.
std::vector<std::vector<Edge>> find_edges(const replays::Problem& problem, const Regions& regions,
                                          const std::vector<std::int64_t>& live, const EdgeLimits& limits,
                                          KnownWays* known = nullptr);

}  // namespace plimsoll::regions
