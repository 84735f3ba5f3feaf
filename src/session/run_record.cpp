#include "session/run_record.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/visit.h"
#include "formats/new_folder.h"
#include "models/family.h"
#include "prepare/data_files.h"
#include "records/environment_record.h"
#include "records/run_folder.h"

namespace plimsoll {
namespace {

std::vector<std::string> texts(const std::vector<std::filesystem::path>& paths) { return {paths.begin(), paths.end()}; }

DataRecord data_record(const Planned& planned) {
  const Config& config = planned.config;
  DataRecord data{.files = texts(config.data.train.names), .validation_files = texts(config.data.validation.names)};
  data.counts = planned.train.counts();
  // Plans have an epoch if rows differ in length. The rest, which grows with the graph, is not kept.
  using Part = nlohmann::json::parse_event_t;
  const nlohmann::json plan = nlohmann::json::parse(planned.plan_text, [](int depth, Part part, const nlohmann::json& name) {
    return part != Part::key || depth != 1 || name == "epoch";
  });
  if (const auto epoch = plan.find("epoch"); epoch != plan.end()) {
    data.samples = epoch->at("samples"), data.tokens = epoch->at("tokens");
    data.trained = epoch->at("trained_units"), data.fill = epoch->at("fill");
    return data;
  }
  const std::unique_ptr<SampleSource> source = planned.train.source(reading_of(config));
  data.samples = source->count();
  const bool alike = !planned.train.own_lengths();  // all but the last one
  const SampleSize first = source->size(0);
  if (alike) data.tokens = first.positions * (data.samples - 1), data.trained = first.units * (data.samples - 1);
  for (std::int64_t i = alike ? data.samples - 1 : 0; i < data.samples; ++i) {
    const SampleSize size = source->size(i);
    data.tokens += size.positions, data.trained += size.units;
  }
  if (alike) data.fill = static_cast<double>(data.tokens) / static_cast<double>(data.samples * first.positions);
  return data;
}

}  // namespace

void RunRecord::begin(const Begins& begins) const {
  folder_.write(kRunSettings, to_json(begins.settings, folder_.path()));
  if (!begins.config.model.init.empty()) keep_shape(begins.config);
  folder_.write("config.resolved.toml", resolved_toml(begins.config));
  folder_.write("plan.json", begins.plan_text + "\n");
  if (begins.layout_text.empty()) {
    std::error_code ignored;
    std::filesystem::remove(folder_.stored(), ignored);  // left by a run without updates
  } else {
    folder_.write(folder_.stored().filename().string(), begins.layout_text);
  }
}

// Keeps the shape of a folder that may be gone when this run is resumed.
void RunRecord::keep_shape(const Config& config) const {
  create_folder(folder_.weights());
  config.model.config.family().write(config.model.config, folder_.weights());
}

// The latest ones: run.json stays small.
nlohmann::json RunRecord::earlier_segments() const {
  constexpr std::size_t kMost = 255;
  nlohmann::json all = folder_.begins_anew() ? nlohmann::json::array() : folder_.segments();
  if (all.size() > kMost) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kMost));
  return all;
}

void RunRecord::evaluated(const Evaluation& evaluation) {
  if (!report_.validation) report_.warm_up_again();
  report_.validation = {evaluation.units, evaluation.loss, evaluation.accuracy};
}

void RunRecord::finish(const Finished& finished) {
  if (finished.stopped_by.empty()) {
    report_.status = "done";
    if (finished.no_improvement) report_.stopped = "no_improvement";
  } else {
    report_.interrupt(std::string(finished.stopped_by));
  }
  report_.parameters_hash = finished.parameters_hash;
  report_.written.save += finished.saved;
  report_.ranks = finished.ranks;
  report_.finish(finished.progress, finished.device, finished.audit);
}

void RunRecord::end() {
  try {
    folder_.write_run(report_.to_json());
  } catch (const Error&) {
    folder_.overwrite_run(report_.to_json());
    throw;
  }
}

// A run that has begun records its end. If even that fails, the first error is the one to report.
void RunRecord::fail(const Failed& failed) {
  if (!begun_) return;
  report_.reach(failed.reached);
  report_.fail(failed.error);
  try {
    folder_.write_run(report_.to_json());
  } catch (const Error&) {
    folder_.overwrite_run(report_.to_json());
  }
}

void RunRecord::see(const Event& event) {
  match(
      event,
      [&](const Planned& planned) {
        report_.command = "train";
        report_.describe(planned.config, planned.plan, planned.machine, planned.budget);
        report_.data_hash = planned.data_hash;
        report_.validation_hash = planned.validation_hash;
        report_.parent = planned.parent;
        report_.data = data_record(planned);
      },
      [&](const Begins& begins) { begin(begins); },
      [&](const Begun& begun) {
        report_.begin(begun.reached, earlier_segments().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
        report_.best = begun.best;
        const Run before = folder_.begins_anew() ? Run() : read_run(folder_.path());
        report_.id = before.id;
        if (before.parent) report_.parent = {before.parent->first, before.parent->second};
        if (report_.id.empty()) report_.id = new_run_id();
        folder_.write_run(report_.to_json());
        begun_ = true;
      },
      [&](const Placed& placed) { report_.arena_base = placed.base; },
      [&](const Loaded& loaded) { report_.written.begin(loaded.written); },
      [&](const MadeWrong& wrong) { report_.fault = wrong.fault; },
      [&](const Updated& updated) {
        report_.note(updated.progress);
        report_.written.add_update(updated.written);
      },
      [&](const Evaluated& done) {
        evaluated(done.evaluation);
        report_.best = done.best;
      },
      [&](const BestSaved& saved) {
        report_.written.save += saved.written;
        if (!std::exchange(saved_best_, true)) report_.warm_up_again();
      },
      [&](const Saved& saved) {
        report_.written.save += saved.written;
        if (!std::exchange(saved_, true)) report_.warm_up_again();
      },
      [&](const Finished& finished) { finish(finished); }, [&](const Ended&) { end(); },
      [&](const Failed& failed) { fail(failed); }, [](const auto&) {});
}

}  // namespace plimsoll
