#include "prepare/bytes_written.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "prepare/run_room.h"
#include "program/program.h"
#include "run/moved.h"
#include "weights/checkpoint.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

// once + each * times, saturated below the maximum of 64 bits.
Bytes sum(Bytes once, Bytes each, std::int64_t times) {
  constexpr Bytes kMost{std::int64_t{1} << 62};
  const double all = static_cast<double>(once.n) + static_cast<double>(each.n) * static_cast<double>(times);
  return all > static_cast<double>(kMost.n) ? kMost : once + each * times;
}

// A resumed run may have lost the folder from which it began; new files then have nearly the same size.
WeightLayout layout_of(const Config& config, const Graph& graph) {
  if (config.adapter.active() || config.model.init.empty()) return {};
  try {
    return layout_of(graph, config.model.config, config.model.init);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
    return {};
  }
}

// The last checkpoint is always made at the end.
std::int64_t checkpoints_of(const Config& config, double update_seconds) {
  const SaveInterval& every = config.save.every;
  const std::int64_t before = config.train.updates - 1;
  if (every.updates > 0) return before / every.updates + 1;
  if (every.seconds == 0) return 1;
  const double due = static_cast<double>(config.train.updates) * update_seconds / static_cast<double>(every.seconds);
  return std::min(before, static_cast<std::int64_t>(due)) + 1;
}

Written on_disk(const Plan& plan) {
  const std::size_t disk = tier_of(plan.tiers, TierKind::disk);
  if (plan.stored[disk].n == 0) return {};
  return written_by(lower(plan), plan.graph, disk);
}

}  // namespace

Saves saves_of(const Config& config, const Plan& plan) {
  const WeightLayout layout = layout_of(config, plan.graph);
  Bytes weights = weights_bytes(plan.graph, config.model.config, layout).all;
  if (config.optimizer.ema_half_life) {
    weights += weights_bytes(plan.graph, config.model.config, layout, /*averages=*/true).all;
  }
  const std::int64_t checkpoints = checkpoints_of(config, plan.update_seconds);
  return {checkpoints, sum(weights, checkpoint_bytes(plan.graph), checkpoints)};
}

Bytes read_by_noise(const Plan& plan) {
  const std::optional<Section> section = plan.graph.find_forward("noise");
  const std::size_t disk = tier_of(plan.tiers, TierKind::disk);
  return section && plan.stored[disk].n > 0 ? read_by(lower(plan).of(*section), disk) : Bytes{};
}

nlohmann::json run_folder_json(const Config& config, const Plan& plan) {
  return to_json(room_of_run(plan.graph, config, layout_of(config, plan.graph)),
                 plan.stored[tier_of(plan.tiers, TierKind::disk)]);
}

nlohmann::json written_json(const Config& config, const Plan& plan) {
  const Written disk = on_disk(plan);
  return {{"load_bytes", disk.load.n},
          {"update_bytes", disk.update.n},
          {"run_bytes", sum(disk.load, disk.update, config.train.updates).n},
          {"save_bytes", saves_of(config, plan).bytes.n}};
}

}  // namespace plimsoll
