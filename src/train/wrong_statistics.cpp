#include "train/wrong_statistics.h"

#include <cstddef>
#include <cstring>
#include <span>

#include "base/error.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/kernels.h"

namespace plimsoll {
namespace {

template <class T>
std::vector<T> numbers(const Executor& executor, ValueId value, std::size_t count) {
  std::vector<T> all(count);
  std::size_t done = 0;
  executor.read(value, [&](std::span<const std::byte> part) {
    ensure(done + part.size() <= count * sizeof(T), "wrong statistics", "a value is larger than its type");
    std::memcpy(reinterpret_cast<std::byte*>(all.data()) + done, part.data(), part.size());
    done += part.size();
  });
  return all;
}

template <class T>
void set(Executor& executor, ValueId value, const std::vector<T>& all) {
  std::size_t done = 0;
  executor.write(value, [&](std::span<std::byte> part) {
    ensure(done + part.size() <= all.size() * sizeof(T), "wrong statistics", "a value is larger than its type");
    std::memcpy(part.data(), reinterpret_cast<const std::byte*>(all.data()) + done, part.size());
    done += part.size();
  });
}

}  // namespace

WrongStatistics::WrongStatistics(StatisticsFault fault, const Graph& graph, std::int64_t rounds, Executor& executor)
    : fault_(fault), executor_(executor) {
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kMovingStatistics) continue;
    const std::int64_t channels = graph.values[node.inputs[0]].type.shape[0];
    layers_.push_back({node.inputs[0], node.inputs[1], node.inputs[2], channels,
                       node.attributes.as<ops::PoolingAttributes>().momentum,
                       std::vector<double>(static_cast<std::size_t>(2 * channels + 1))});
  }
  if (layers_.empty()) {
    throw config_error("E-USAGE", "fault", "no running statistics move", "a model with batch normalisation that is trained");
  }
  if (rounds < 2 && fault != StatisticsFault::rows) {
    throw config_error("E-USAGE", "fault", "a window has one micro-step", "two or more, each run by itself");
  }
}

// Moves the statistics by the sums so far.
void WrongStatistics::move(const Layer& layer) {
  const auto channels = static_cast<std::size_t>(layer.channels);
  std::vector<float> mean = numbers<float>(executor_, layer.mean, channels);
  std::vector<float> variance = numbers<float>(executor_, layer.variance, channels);
  const std::vector<double> sums = numbers<double>(executor_, layer.sums, layer.before.size());
  cpu::move_statistics(layer.channels, sums.data(), layer.momentum, mean.data(), variance.data());
  set(executor_, layer.mean, mean);
  set(executor_, layer.variance, variance);
}

void WrongStatistics::after_micro(bool first) {
  if (fault_ != StatisticsFault::micro && fault_ != StatisticsFault::replay) return;
  for (Layer& layer : layers_) {
    if (fault_ == StatisticsFault::micro) {
      move(layer);
      set(executor_, layer.sums, std::vector<double>(layer.before.size()));
      continue;
    }
    std::vector<double> sums = numbers<double>(executor_, layer.sums, layer.before.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sums[i] - (first ? 0 : layer.before[i]);
    set(executor_, layer.sums, sums);
    layer.before = std::move(sums);
  }
}

void WrongStatistics::before_update() {
  if (fault_ != StatisticsFault::twice) return;
  for (const Layer& layer : layers_) move(layer);
}

}  // namespace plimsoll
