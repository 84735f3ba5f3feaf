// Whether the folder of a run has room for what the run writes: the checkpoint, the weights, the averages where they are kept,
// and beside them the largest of these once more, since a successor is whole before it takes the place. All of their bytes are
// known before the first update.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "models/model_config.h"
#include "records/run_folder.h"
#include "weights/weight_layout.h"

namespace plimsoll {

struct RunRoom {
  Bytes checkpoint, weights, averages;
  Bytes largest_file = {};  // of weights and averages

  // One successor is written at a time.
  Bytes successor() const;
  Bytes all() const { return checkpoint + weights + averages + successor(); }
  friend bool operator==(const RunRoom&, const RunRoom&) = default;
};

RunRoom room_of_run(const Graph& graph, const ModelConfig& model, const WeightLayout& layout, bool averages);

// For this user, where the path lies or will lie; nothing where the file system does not tell.
std::optional<Bytes> free_bytes(const std::filesystem::path& path);

// E-RUN-ROOM (exit 5) where that is not free; what lies in the folder of an earlier part of the run is replaced and counts as
// free. `pages`: bytes that a page file takes in `pages_in`, which may be the same file system. `elsewhere`: places to try,
// the first one with room is named.
void check_room(const RunFolder& folder, const RunRoom& room, Bytes pages, const std::filesystem::path& pages_in,
                const std::vector<std::filesystem::path>& elsewhere);
// E-IO-WRITE where this process may not write files of such a size (ulimit -f).
void check_file_limit(const RunFolder& folder, const RunRoom& room);

}  // namespace plimsoll
