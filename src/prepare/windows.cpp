#include "prepare/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ceil_div.h"
#include "data/sample_file.h"
#include "data/token_source.h"

namespace plimsoll {
namespace {

bool packs(const Config& config, const TokenFile& file) { return config.batch.packing && file.samples > 0; }

std::int64_t samples_of(const Config& config, const TokenFile& file) {
  return file.samples > 0 ? file.samples : make_samples(file.tokens, config.model.context, file.name).count();
}

}  // namespace

WindowRule window_rule(const Config& config, const TokenFile& train) {
  const TrainSettings& settings = config.train;
  WindowRule rule{.row = config.model.context, .packs = packs(config, train)};
  if (settings.effective_tokens > 0) {
    rule.positions = settings.effective_tokens;
  } else {
    rule.samples = settings.effective_batch;
  }
  if (settings.epochs) {
    const double samples = *settings.epochs * static_cast<double>(samples_of(config, train));
    rule.span = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(samples)));
  }
  return rule;
}

SampleOrder sample_order(const Config& config, std::int64_t samples) {
  return {config.data.order, static_cast<std::uint64_t>(config.seed), samples};
}

std::unique_ptr<SampleSource> source_over(const Config& config, const TokenFile& file) {
  const std::int64_t context = config.model.context;
  if (file.samples == 0) return std::make_unique<TokenSource>(file, context);
  return std::make_unique<StoredSamples>(file, context, config.batch.packing);
}

EpochFacts epoch_facts(const Config& config, const TokenFile& train) {
  const std::unique_ptr<SampleSource> source = source_over(config, train);
  const SampleOrder order = sample_order(config, source->count());
  WindowRule rule = window_rule(config, train);
  EpochFacts epoch{.samples = source->count()};
  std::int64_t shortest = rule.row;
  for (std::int64_t i = 0; i < epoch.samples; ++i) {
    const SampleSize size = source->size(i);
    epoch.units += size.units;
    epoch.positions += size.positions;
    shortest = std::min(shortest, size.positions);
  }
  rule.span = epoch.samples;
  Window window;
  for (std::int64_t first = 0; first < epoch.samples; first = window.end()) {
    cut_window(order, *source, rule, first, window);
    if (window.end() == epoch.samples && epoch.windows > 0) break;
    ++epoch.windows;
    epoch.rows += window.rows;
    epoch.most_rows = std::max(epoch.most_rows, window.rows);
  }
  // No order of another epoch needs more: of two rows that first fit has begun, one is more than half full.
  if (rule.samples > 0) {
    epoch.most_rows = rule.samples;
  } else {
    epoch.most_rows =
        rule.packs ? 2 * ceil_div(rule.positions, rule.row) + 1 : std::max<std::int64_t>(1, rule.positions / shortest);
  }
  return epoch;
}

std::int64_t updates_of_epochs(const Config& config, const TokenFile& train) {
  const WindowRule rule = window_rule(config, train);
  if (rule.samples > 0) return ceil_div(rule.span, rule.samples);
  const std::unique_ptr<SampleSource> source = source_over(config, train);
  const SampleOrder order = sample_order(config, source->count());
  Window window;
  std::int64_t updates = 0;
  WindowRule unpacked = rule;  // how samples lie in rows does not matter
  unpacked.packs = false;
  for (std::int64_t first = 0; first < rule.span; first = window.end(), ++updates)
    cut_window(order, *source, unpacked, first, window);
  return updates;
}

std::optional<RaggedWindows> ragged_windows(const Config& config, const EpochFacts& epoch) {
  if (config.train.effective_tokens == 0 && !config.batch.packing) return {};
  const std::int64_t windows = std::max<std::int64_t>(1, epoch.windows);
  const double share = static_cast<double>(epoch.positions) / static_cast<double>(epoch.samples);
  const double samples = config.train.effective_tokens > 0 ? static_cast<double>(config.train.effective_tokens) / share
                                                           : static_cast<double>(config.train.effective_batch);
  return RaggedWindows{
      .rows = std::max<std::int64_t>(1, ceil_div(epoch.rows, windows)),
      .most_rows = epoch.most_rows,
      .units = std::max<std::int64_t>(1, std::llround(std::min(samples, static_cast<double>(epoch.samples)) * share))};
}

std::optional<RaggedWindows> assumed_windows(const Config& config) {
  const std::int64_t context = config.model.context, rows = config.train.effective_batch;
  if (config.train.effective_tokens == 0 && !config.batch.packing) return {};
  const std::int64_t most = config.train.effective_tokens > 0 ? 2 * rows + 1 : rows;
  return RaggedWindows{.rows = rows, .most_rows = most, .units = rows * context};
}

DataFacts facts_of(const Config& config, const DataFiles& files, const std::optional<RaggedWindows>& ragged) {
  DataFacts facts = files.facts();
  facts.packed = packs(config, files.train);
  if (facts.packed) facts.bytes_per_row = StoredSamples::staging_bytes_per_row(config.model.context, true);
  facts.ragged = ragged;
  return facts;
}

}  // namespace plimsoll
