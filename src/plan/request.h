// The planner's input: budgets, the user's choices, and the graph of each micro-batch size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ceil_div.h"
#include "graph/graph.h"

namespace plimsoll {

struct Budget {
  std::optional<Bytes> memory;  // of the process
  std::optional<Bytes> host_memory;
  std::optional<Bytes> disk;
};

enum class RecomputePolicy : std::uint8_t { automatic, none, all };

enum class RestPolicy : std::uint8_t { automatic, memory, disk };

// Windows of different numbers of rows. A micro-batch takes a part of the rows, so the number of micro-steps differs from
// window to window.
struct RaggedWindows {
  std::int64_t rows = 1, most_rows = 1;  // rows of a window: the expected number, the largest
  std::int64_t units = 1;                // units (tokens) of a window: the expected number

  friend bool operator==(const RaggedWindows&, const RaggedWindows&) = default;
};

// The user's choices; the planner decides the rest.
struct PlanRequest {
  std::int64_t effective_batch = 1;  // samples; one row each, unless windows are ragged
  std::optional<RaggedWindows> ragged;
  std::int64_t most_rows = 0;               // the most rows of a micro-batch; 0: no bound
  std::optional<std::int64_t> micro_batch;  // rows; divides the effective batch unless windows are ragged
  std::int64_t row_step = 1;                // micro-batches are multiples of it; divides the effective batch
  std::optional<std::int64_t> group;        // micro-batches that go together; divides the micro-batches of a window
  RecomputePolicy recompute = RecomputePolicy::automatic;
  std::optional<int> loss_chunks;  // of the chunked loss, 1 to its number of tiles
  // Budgets of the tiers past the first, nearest first; empty: nothing leaves the first tier. A host's budget includes its
  // process; 0: nothing rests there.
  std::vector<Bytes> beyond;
  // The resting places. Parameters and gradients are those of the blocks and of tables, and leave memory only together with
  // optimizer state.
  RestPolicy optimizer_state = RestPolicy::automatic, parameters = RestPolicy::automatic, gradients = RestPolicy::automatic;
  RestPolicy activations = RestPolicy::automatic;  // the inputs of the first blocks, between the passes
  bool saves = true;                               // the run writes weights and checkpoints
  std::int64_t units_per_sample = 1;               // tokens per sample; rates count tokens
  std::int64_t ranks = 1;                          // processes that share the micro-batches of a window
  bool floor_only = false;                         // find only the smallest plans of the smallest micro-batch

  // The number of micro-batches of a window on one rank, with `rows` rows each. A ragged window counts as two or more, so that no
  // plan ends a window with its first micro-batch.
  std::int64_t accumulation(std::int64_t rows) const {
    if (ragged) return std::max<std::int64_t>(2, ceil_div(ceil_div(ragged->rows, rows), ranks));
    return ceil_div(effective_batch / rows, ranks);
  }
  std::int64_t units_per_update() const { return ragged ? ragged->units : effective_batch * units_per_sample; }
};

// Builds the graph of one micro-batch size: a training, or forward passes alone. Value ids are the same for every size.
using GraphSource = std::function<Graph(std::int64_t micro_batch)>;

}  // namespace plimsoll
