#include "config/stop_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "models/family.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kUsualEvaluations = 10;  // of a run

Error unused(const GivenSettings& given, std::string_view key, std::string what, std::string expected, Change remedy) {
  return config_error("E-CONFIG-CONFLICT", given.where(key), std::move(what), std::move(expected), {std::move(remedy)});
}

// Throws if evaluations on the way are needed for `key` and there are none.
void need_evaluations(const Config& config, const GivenSettings& given, std::string_view key) {
  const auto missing = [&](std::string_view absent, Change remedy) {
    return config_error("E-CONFIG-MISSING", given.where(key), fmt::format("{} is given, and {} is not", key, absent),
                        "losses of validation data during the run", {std::move(remedy)});
  };
  if (!has_validation(config)) throw missing("data.validation", Change("data.validation", "FILE"));
  if (evaluation_interval(config) > 0) return;
  throw missing("train.evaluate_every",
                Change("train.evaluate_every", std::max<std::int64_t>(1, config.train.updates / kUsualEvaluations)));
}

// Throws if there is no evaluation within the patience. The lengths of a run in epochs may still be open.
void check_patience(const Config& config, const GivenSettings& given, std::string_view key, const Duration& patience) {
  const std::int64_t interval = evaluation_interval(config), updates = in_updates(patience, run_length(config));
  if (config.train.open || updates >= interval) return;
  throw config_error("E-CONFIG-RANGE", given.where(key),
                     fmt::format("{} is {} updates, and there are {} between evaluations", key, updates, interval),
                     "at least the interval of evaluations",
                     {Change(std::string(key), to_text(Duration{interval, ClockUnit::updates}))});
}

}  // namespace

Duration usual_patience(const Config& config) {
  return {std::max(ceil_div(config.train.updates, kUsualEvaluations), evaluation_interval(config)), ClockUnit::updates};
}

void check_stop(const Config& config, const GivenSettings& given) {
  const StopSettings& stop = config.stop;
  if (config.schedule.kind == ScheduleKind::plateau) {
    need_evaluations(config, given, "schedule.name");
    check_patience(config, given, "schedule.patience", config.schedule.patience);
  }
  if (config.save.keep_best > 0) need_evaluations(config, given, "save.keep_best");
  if (stop.patience.amount > 0) {
    need_evaluations(config, given, "stop.patience");
    check_patience(config, given, "stop.patience", stop.patience);
  } else if (stop.min_delta > 0) {
    throw unused(given, "stop.min_delta", "stop.min_delta is given, and stop.patience is not", "both, or none",
                 Change("stop.patience", "20%"));
  }
  if (stop.metric == StopMetric::accuracy && facts_of(config.model.config).classes == 0) {
    throw unused(given, "stop.metric", "stop.metric is accuracy, and this model has no classes", "loss",
                 Change("stop.metric", "loss"));
  }
}

}  // namespace plimsoll
