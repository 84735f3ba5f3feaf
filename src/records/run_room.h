// Whether the folder of a run has room for what the run writes: the checkpoint, its successor beside it, the weights, and the
// averages where they are kept. All of their bytes are known before the first update.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "models/model_config.h"
#include "records/run_folder.h"

namespace plimsoll {

struct RunRoom {
  Bytes checkpoint, weights, averages;

  Bytes all() const { return checkpoint * 2 + weights + averages; }
  friend bool operator==(const RunRoom&, const RunRoom&) = default;
};

RunRoom room_of_run(const Graph& graph, const ModelConfig& model, bool averages);

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
