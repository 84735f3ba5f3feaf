// The most bytes that the folder of a run takes on its disk: checkpoints, weights, the best ones, averages, and records. A folder
// that is replaced counts twice, since its successor is written first. All sizes are known before the first update.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>

#include "base/bytes.h"
#include "config/config.h"
#include "graph/graph.h"
#include "weights/weight_layout.h"

namespace plimsoll {

// The checkpoints that stay: the last ones, those of the best evaluations, and one at each multiple of an interval.
struct Retention {
  std::int64_t last = 2, best = 0, every = 0;  // every: updates; 0: no interval

  bool keeps(std::int64_t update) const { return every > 0 && update > 0 && update % every == 0; }
  // The most checkpoints at one time during a run of so many updates, with the one that is being written.
  std::int64_t most(std::int64_t updates) const;
};
Retention retention_of(const Config& config);

struct RunRoom {
  Bytes checkpoint, weights, averages, best, records;
  std::int64_t checkpoints = 2;
  Bytes largest_file = {};  // largest file of weights and averages
  Bytes diverged = {};      // the state of a training that diverges
  bool again = false;       // the run has saved its weights before
  // Checkpoints of later updates are set aside, and take their room as well.
  std::int64_t until = std::numeric_limits<std::int64_t>::max();

  // The largest folder of weights that is replaced.
  Bytes successor() const;
  Bytes all() const { return checkpoint * checkpoints + weights + averages + best + diverged + records + successor(); }
  friend bool operator==(const RunRoom&, const RunRoom&) = default;
};

// The lines of metrics.jsonl for so many updates.
Bytes metrics_bytes(std::int64_t updates);
RunRoom room_of_run(const Graph& graph, const Config& config, const WeightLayout& layout);
nlohmann::json to_json(const RunRoom& room, Bytes pages);

}  // namespace plimsoll
