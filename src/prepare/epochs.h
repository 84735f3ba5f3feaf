// Updates from the data and the configuration: the source that is read, the windows that are cut from its order, and the totals
// of an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "config/config.h"
#include "data/sample_source.h"
#include "data/window.h"
#include "prepare/data_files.h"
#include "prepare/training_graph.h"

namespace plimsoll {

WindowRule window_rule(const Config& config, const DataSet& train);
SampleOrder sample_order(const Config& config, std::int64_t samples);

// The windows of the first epoch.
struct EpochFacts {
  std::int64_t samples = 0, units = 0, positions = 0;
  std::int64_t updates = 0, all_rows = 0;  // totals of all windows; the last one may be short
  std::int64_t windows = 0, rows = 0;      // totals without the last window, unless it is the only one
  std::int64_t most_rows = 0;              // upper bound on the rows of a window of any epoch
};
// Reads the lengths of all samples.
EpochFacts epoch_facts(const Config& config, const DataSet& train);
// The number of updates for train.epochs passes over the data. Reads the lengths of all samples of all epochs if windows have a
// number of tokens.
std::int64_t updates_of_epochs(const Config& config, const DataSet& train);

// The data of all updates of a run: train.updates windows, cut from the order as training cuts them.
struct RunCounts {
  std::int64_t samples = 0, units = 0, positions = 0;
  double epochs = 0;
};
// `epoch`: the facts of the same data, if known. Windows of a number of tokens are extrapolated past the first million samples.
RunCounts counts_of_run(const Config& config, const DataSet& train, const EpochFacts* epoch);

// The windows of an evaluation in micro-batches of n rows. It reads the first `samples` samples in order.
WindowRule evaluation_rule(std::int64_t samples, std::int64_t micro_batch, std::int64_t row, bool packs);
// The number of samples that an evaluation reads, and the number of its micro-batches.
std::int64_t evaluated_samples(const Config& config, std::int64_t count);
std::int64_t evaluation_batches(const Config& config, const DataSet& validation, std::int64_t micro_batch);

// The planner's facts about windows with different numbers of rows; nothing for other windows.
std::optional<RaggedWindows> ragged_windows(const Config& config, const EpochFacts& epoch);
// The same for missing data: all samples have the length of the context.
std::optional<RaggedWindows> assumed_windows(const Config& config);

// The facts of opened data.
DataFacts facts_of(const Config& config, const DataFiles& files, const std::optional<RaggedWindows>& ragged);

}  // namespace plimsoll
