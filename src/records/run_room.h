// The check that the folder of a run has room for its files: the checkpoint, the weights, the best ones and the averages. The
// largest of them counts twice, since a new version is written before the old one is replaced. All sizes are known before the
// first update.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "config/config.h"
#include "graph/graph.h"
#include "records/run_folder.h"
#include "weights/weight_layout.h"

namespace plimsoll {

struct RunRoom {
  Bytes checkpoint, weights, averages, best;
  Bytes largest_file = {};  // largest file of weights and averages

  // Only one new version is written at a time.
  Bytes successor() const;
  Bytes all() const { return checkpoint + weights + averages + best + successor(); }
  friend bool operator==(const RunRoom&, const RunRoom&) = default;
};

RunRoom room_of_run(const Graph& graph, const Config& config, const WeightLayout& layout);

// Free bytes for this user at an existing or future path; nothing if the file system does not report them.
std::optional<Bytes> free_bytes(const std::filesystem::path& path);

// E-RUN-ROOM (exit 5) without enough free bytes. Replaced files of an earlier part of the run count as free. `pages`: bytes of a
// page file in `pages_in`, possibly on the same file system. `elsewhere`: places to propose; the first with room is named.
void check_room(const RunFolder& folder, const RunRoom& room, Bytes pages, const std::filesystem::path& pages_in,
                const std::vector<std::filesystem::path>& elsewhere);
// E-IO-WRITE if this process may not write files of that size (ulimit -f).
void check_file_limit(const RunFolder& folder, const RunRoom& room);

}  // namespace plimsoll
