// The choices of a stretch of regions: the ops that run again, and when. Each choice is an edge with its seconds, the bytes
// held between the passes and the peak of its own steps. These are exact to the byte for the stretch alone, independent of
// the other stretches. A plan is a path of edges from the first region to the loss.
//
//   regions      0       1       2       3     loss
//   edges        *------>*------>*------>*------>*    one region: everything is kept, or ops run again
//                *-------------->*                    two regions: ops run again
//                *---------------------->*            up to `longest` regions: a segment that keeps only its input
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/replays/regions.h"

namespace plimsoll::regions {

struct Edge {
  int end = 0;             // the region after it
  double seconds = 0;      // of replays
  std::int64_t peak = 0;   // peak live bytes at its steps while all other regions keep everything
  std::int64_t saved = 0;  // bytes held between its passes minus those of keeping everything: at most 0
  std::vector<replays::Replay> replays;
};

struct EdgeLimits {
  bool keeps = true;  // also the edge that keeps everything
  bool some = true;   // also edges that run ops again
  int longest = 8;    // most regions of a segment that keeps only its input
  int local = 2;      // most regions of a stretch whose ops are decided one by one, within a byte limit

  std::string text() const;  // unique per set of limits
};

// One choice of a stretch, independent of its surroundings.
struct Way {
  std::vector<replays::Replay> replays;
  std::vector<std::int64_t> rise;  // by position: live bytes minus those of keeping everything
  std::int64_t saved;              // Edge::saved
  double seconds;
};

// The choices of stretches by structure, shared between problems with the same ops. Thread-safe.
struct KnownWays {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const std::vector<Way>>> of;  // by the signature of a stretch
};

// The edges that begin at each region; no edge dominates another of the same stretch. Each region alone has at least one.
// `live`: bytes at each op if everything is kept. `known`, if given, is used and extended, unless limits.local is positive.
std::vector<std::vector<Edge>> find_edges(const replays::Problem& problem, const Regions& regions,
                                          const std::vector<std::int64_t>& live, const EdgeLimits& limits,
                                          KnownWays* known = nullptr);

}  // namespace plimsoll::regions
