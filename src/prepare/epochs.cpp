#include "prepare/epochs.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"

namespace plimsoll {
namespace {

bool packs(const Config& config, const DataSet& data) { return config.batch.packing && data.own_lengths(); }

struct Sums {
  std::int64_t units = 0, positions = 0;

  void add(const SampleSize& size) { units += size.units, positions += size.positions; }
};

constexpr std::int64_t kMostRead = 1 << 20;  // samples

// The sums over the first `count` samples of an epoch. `alike`: all samples except the last one have the same size.
Sums sums_of(const SampleSource& source, const SampleOrder& order, std::int64_t epoch, std::int64_t count, bool alike) {
  Sums sums;
  const std::int64_t begin = epoch * order.samples;
  if (!alike || count <= kMostRead) {
    for (std::int64_t i = begin; i < begin + count; ++i) sums.add(source.size(order.at(i).sample));
    return sums;
  }
  const std::int64_t row = source.size(0).positions, last = source.size(order.samples - 1).positions;
  sums.positions = sums.units = count * row - (count == order.samples ? row - last : 0);
  return sums;
}

std::int64_t samples_of_updates(const SampleSource& source, const SampleOrder& order, WindowRule rule, std::int64_t updates) {
  if (rule.samples > 0) {
    if (rule.span == 0) return updates * rule.samples;
    const std::int64_t of_span = ceil_div(rule.span, rule.samples);
    return updates / of_span * rule.span + std::min(updates % of_span * rule.samples, rule.span);
  }
  rule.packs = false;  // how samples lie in rows does not matter
  Window window;
  std::int64_t first = 0, done = 0;
  for (; done < updates && first < kMostRead; ++done, first = window.end()) cut_window(order, source, rule, first, window);
  if (done == updates) return first;
  if (rule.span > 0) return rule.span;  // the number of updates follows from the span
  return std::llround(static_cast<double>(first) / static_cast<double>(done) * static_cast<double>(updates));
}

}  // namespace

WindowRule window_rule(const Config& config, const DataSet& train) {
  const TrainSettings& settings = config.train;
  WindowRule rule{.row = config.model.context, .packs = packs(config, train)};
  if (settings.effective_tokens > 0) {
    rule.positions = settings.effective_tokens;
  } else {
    rule.samples = settings.effective_batch;
  }
  if (settings.epochs) {
    const double samples = *settings.epochs * static_cast<double>(train.count(reading_of(config)));
    rule.span = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(samples)));
  }
  return rule;
}

SampleOrder sample_order(const Config& config, std::int64_t samples) {
  return {config.data.order, static_cast<std::uint64_t>(config.seed), samples};
}

EpochFacts epoch_facts(const Config& config, const DataSet& train) {
  const std::unique_ptr<SampleSource> source = train.source(reading_of(config));
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
    ++epoch.updates;
    epoch.all_rows += window.rows;
    if (window.end() == epoch.samples && epoch.windows > 0) break;
    ++epoch.windows;
    epoch.rows += window.rows;
  }
  // A bound for the orders of all epochs: with first fit, two neighbouring rows hold more than one row together.
  if (rule.samples > 0) {
    epoch.most_rows = rule.samples;
  } else {
    epoch.most_rows =
        rule.packs ? 2 * ceil_div(rule.positions, rule.row) + 1 : std::max<std::int64_t>(1, rule.positions / shortest);
  }
  return epoch;
}

std::int64_t updates_of_epochs(const Config& config, const DataSet& train) {
  WindowRule rule = window_rule(config, train);
  if (rule.samples > 0) return ceil_div(rule.span, rule.samples);
  const std::unique_ptr<SampleSource> source = train.source(reading_of(config));
  const SampleOrder order = sample_order(config, source->count());
  Window window;
  std::int64_t updates = 0;
  rule.packs = false;  // how samples lie in rows does not matter
  for (std::int64_t first = 0; first < rule.span; first = window.end(), ++updates) {
    cut_window(order, *source, rule, first, window);
  }
  return updates;
}

RunCounts counts_of_run(const Config& config, const DataSet& train, const EpochFacts* epoch) {
  const std::unique_ptr<SampleSource> source = train.source(reading_of(config));
  const SampleOrder order = sample_order(config, source->count());
  RunCounts run{.samples = samples_of_updates(*source, order, window_rule(config, train), config.train.updates)};
  const std::int64_t whole = run.samples / order.samples, rest = run.samples % order.samples;
  const bool alike = !train.own_lengths();
  Sums each;
  if (whole > 0) {
    each = epoch != nullptr ? Sums{epoch->units, epoch->positions} : sums_of(*source, order, 0, order.samples, alike);
  }
  const Sums begun = sums_of(*source, order, whole, rest, alike);
  run.units = whole * each.units + begun.units;
  run.positions = whole * each.positions + begun.positions;
  run.epochs = static_cast<double>(run.samples) / static_cast<double>(order.samples);
  return run;
}

WindowRule evaluation_rule(std::int64_t samples, std::int64_t micro_batch, std::int64_t row, bool packs) {
  constexpr std::int64_t kPacked = 512;  // samples that are packed together: memory does not grow with the data
  return {.samples = packs ? kPacked : micro_batch, .positions = 0, .span = samples, .row = row, .packs = packs};
}

std::int64_t evaluated_samples(const Config& config, std::int64_t count) {
  return config.train.evaluate_samples == 0 ? count : std::min(config.train.evaluate_samples, count);
}

std::int64_t evaluation_batches(const Config& config, const DataSet& validation, std::int64_t micro_batch) {
  const std::unique_ptr<SampleSource> source = validation.source(reading_of(config));
  const std::int64_t samples = evaluated_samples(config, source->count());
  if (!packs(config, validation)) return ceil_div(samples, micro_batch);
  const SampleOrder order{OrderKind::sequential, 0, source->count()};
  const WindowRule rule = evaluation_rule(samples, micro_batch, config.model.context, true);
  Window window;
  std::int64_t batches = 0;
  for (std::int64_t first = 0; first < samples; first = window.end()) {
    cut_window(order, *source, rule, first, window);
    batches += ceil_div(window.rows, micro_batch);
  }
  return batches;
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
  const bool packed = packs(config, *files.train);
  // Both sets go through the same staging buffers.
  RowShape row = files.train->row_shape(packed);
  if (files.validation) row = both(row, files.validation->row_shape(packed));
  return {.row = row, .validation = files.validation != nullptr, .packed = packed, .ragged = ragged};
}

}  // namespace plimsoll
