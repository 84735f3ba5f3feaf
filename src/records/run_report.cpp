#include "records/run_report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "config/image_rules.h"
#include "device/process_memory.h"
#include "records/best_weights.h"
#include "records/environment_record.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json counts_or_null(const SampleCounts& counts) {
  if (counts == SampleCounts()) return nullptr;
  json object;
  for (const auto& [name, count] : kSampleCounts) object[name] = counts.*count;
  return object;
}

json data_json(const RunReport& report) {
  const DataRecord& data = report.data;
  const std::string& validation = report.validation_hash;
  return {{"files", data.files},
          {"validation_files", data.validation_files},
          {"hashes", {{"train", report.data_hash}, {"validation", validation.empty() ? json(nullptr) : json(validation)}}},
          {"samples", data.samples},
          {"tokens", data.tokens},
          {"trained", data.trained},
          {"fill", data.fill ? json(*data.fill) : json(nullptr)},
          {"counts", counts_or_null(data.counts)}};
}

json bytes_or_null(const std::optional<Bytes>& bytes) { return bytes ? json(bytes->n) : json(nullptr); }

// "2026-01-31T12:00:00Z"
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

void RunReport::begin(const Progress& from, std::string earlier) {
  reach(from);
  from_update_ = from.updates;
  earlier_segments_ = std::move(earlier);
  begun_ = time_text();
}

void RunReport::describe(const Config& config, const Plan& plan, const Machine& machine, const Budget& budget) {
  seed_ = config.seed;
  config_hash_ = config_hash(config);
  plan_hash_ = plan.plan_hash;
  graph_hash_ = plan.graph_hash;
  machine_hash_ = machine.hash;
  instruction_set_ = machine.instruction_set;
  libraries_ = machine.libraries;
  environment_ = environment_record(machine.libraries).dump(-1, ' ', false, json::error_handler_t::replace);
  threads_ = plan.threads;
  effective_ = plan.effective_batch;
  micro_ = plan.decisions.micro_batch;
  accumulation_ = plan.decisions.accumulation;
  units_per_update_ = plan.units_per_update;
  stat_batch_ = stat_batch(config);
  budget_ = budget;
  predicted_process_ = plan.process;
  predicted_host_ = plan.host;
  tiers_ = plan.tiers;
  predicted_arena_ = plan.arena;
  predicted_live_ = plan.live;
}

// The first two updates may touch pages late; later ones leave the process as it is.
void RunReport::note(const Progress& progress) {
  constexpr double kPause = 0.1;  // seconds: counting takes a thousandth of that
  progress_ = progress;
  if (noted_ >= 2 && seconds_now() - counted_at_ < kPause) return;
  const Bytes resident = counted_resident();
  counted_at_ = seconds_now();
  if (++noted_ <= 2) {
    warm_ = resident;
  } else {
    grown_ = std::max(grown_, resident - warm_);
  }
}

void RunReport::fail(const Error& error) {
  ended_ = time_text();
  status = error.exit == ExitCode::interrupted ? "interrupted" : "failed";
  exit_code = static_cast<int>(error.exit);
  error_ = error;
}

void RunReport::interrupt(const std::string& by) {
  status = "interrupted";
  exit_code = static_cast<int>(ExitCode::interrupted);
  error_ = Error(ErrorKind::user, ExitCode::interrupted, "E-INTERRUPTED", "run",
                 fmt::format("the run was interrupted by {} and saved", by), "the run resumed, which continues it");
}

void RunReport::finish(const Progress& progress, const Device& device, Audit* audit) {
  ended_ = time_text();
  progress_ = progress;
  for (std::size_t i = 1; i < tiers_.size(); ++i) measured_tiers_[i] = device.use_of(i);
  process_hwm = peak_resident();
  measured_arena = device.resident();
  measured_device_ = device.used();
  if (audit == nullptr) return;
  method_ = "audit";
  measured_arena = measured_live_.emplace();
  for (const PhaseAudit& phase : audit->phases()) {
    if (!phase.partial) measured_phases_.push_back({phase.name, phase.arena, phase.live});  // else no peak of the phase
    measured_arena = std::max(measured_arena, phase.arena);
    measured_live_ = std::max(*measured_live_, phase.live);
  }
}

std::string audit_difference(const std::vector<PhasePlan>& planned, const std::vector<PhaseAudit>& measured) {
  std::string text;
  const auto add = [&](const std::string& phase, const std::string& what) {
    text += fmt::format("{}phase {}: {}", text.empty() ? "" : "; ", phase, what);
  };
  for (const PhaseAudit& one : measured) {
    const auto plan = std::ranges::find(planned, one.phase, &PhasePlan::phase);
    if (plan == planned.end()) {
      add(one.name, "not planned");
      continue;
    }
    const bool within = one.arena <= plan->arena && one.live <= plan->live;
    const bool equal = one.arena == plan->arena && one.live == plan->live;
    if (one.partial ? !within : !equal) {
      add(one.name, fmt::format("planned arena {} live {} bytes, measured {} and {}", plan->arena.n, plan->live.n, one.arena.n,
                                one.live.n));
    }
  }
  return text;
}

Error audit_error(std::string difference) {
  return Error(ErrorKind::internal, ExitCode::verify_failed, "E-VERIFY", "audit", std::move(difference),
               "bytes that are written and read exactly where the plan says");
}

json RunReport::to_json() const {
  json phases = json::array();
  for (const Phases& phase : measured_phases_) {
    phases.push_back({{"name", phase.name}, {"arena_bytes", phase.arena.n}, {"live_bytes", phase.live.n}});
  }
  const bool ended = process_hwm.n > 0;
  // The arena of a GPU is outside the process.
  const Bytes outside = measured_device_ ? process_hwm : process_hwm - align_up(measured_arena, kPage);
  const bool has_host = predicted_host_.n > 0;
  const json live = measured_live_ ? json(measured_live_->n) : json(nullptr);
  const bool updated = progress_.updates > 0;
  json tiers = json::array(
      {{{"name", tiers_[0].name}, {"arena_bytes", ended ? json(measured_arena.n) : json(nullptr)}, {"live_bytes", live}}});
  for (std::size_t i = 1; i < measured_tiers_.size(); ++i) {
    const std::optional<TierUse>& facts = measured_tiers_[i];
    if (!facts) continue;
    tiers.push_back({{"name", tiers_[i].name}, {"arena_bytes", facts->height.n}, {"live_bytes", facts->written.n}});
    if (facts->transfers) tiers.back()["transfers"] = name(*facts->transfers);
  }
  json measured = {{"process_hwm_bytes", ended ? json(process_hwm.n) : json(nullptr)},
                   {"host_bytes", ended && has_host ? json(outside.n) : json(nullptr)},
                   {"reserve_bytes", ended && !has_host ? json(outside.n) : json(nullptr)},
                   {"device_bytes", bytes_or_null(measured_device_)},
                   {"arena_bytes", ended ? json(measured_arena.n) : json(nullptr)},
                   {"live_bytes", live},
                   {"tiers", tiers},
                   {"phases", phases},
                   {"method", method_},
                   {"grown_after_warmup_bytes", ended ? json(grown_.n) : json(nullptr)}};
  json report = {
      {"schema", "plimsoll.run/1"},
      {"id", id},
      {"pid", getpid()},
      {"status", status},
      {"exit_code", exit_code},
      {"error", error_ ? json{{"code", error_->code}, {"message", error_->message}} : json(nullptr)},
      {"command", command},
      {"seed", seed_},
      {"config_hash", config_hash_},
      {"plan_hash", plan_hash_},
      {"graph_hash", graph_hash_},
      {"machine_hash", machine_hash_},
      {"data_hash", data_hash},
      {"validation_hash", validation_hash.empty() ? json(nullptr) : json(validation_hash)},
      {"data", data_json(*this)},
      {"threads", threads_},
      {"instruction_set", instruction_set_},
      {"libraries", libraries_},
      {"environment", json::parse(environment_)},
      {"batch",
       {{"effective", effective_}, {"micro", micro_}, {"accumulation", accumulation_}, {"units_per_update", units_per_update_}}},
      {"budget",
       {{"memory", bytes_or_null(budget_.memory)},
        {"host_memory", bytes_or_null(budget_.host_memory)},
        {"disk", bytes_or_null(budget_.disk)}}},
      {"predicted",
       {{"process_bytes", predicted_process_.n},
        {"host_bytes", has_host ? json(predicted_host_.n) : json(nullptr)},
        {"arena_bytes", predicted_arena_.n},
        {"live_bytes", predicted_live_.n}}},
      {"measured", measured},
      {"written",
       {{"load_bytes", written.load.n},
        {"update_bytes", written.update.n},
        {"run_bytes", written.run.n},
        {"save_bytes", written.save.n}}},
      {"arena", {{"base", arena_base ? json(*arena_base) : json(nullptr)}, {"bytes", predicted_arena_.n}}},
      {"updates", progress_.updates},
      {"samples", progress_.samples},
      {"units", progress_.units},
      {"seconds", progress_.seconds},
      {"final",
       {{"loss", updated ? json(progress_.loss) : json(nullptr)},
        {"loss_bits", updated ? json(bits_hex(progress_.loss)) : json(nullptr)},
        {"validation_loss", validation ? json(validation->loss) : json(nullptr)},
        {"parameters_xxh128", parameters_hash.empty() ? json(nullptr) : json(parameters_hash)}}}};
  report["batch"]["stat_batch"] = stat_batch_ > 0 ? json(stat_batch_) : json();
  if (stat_batch_ > 0) report["norm"] = fmt::format("ghost BN({})", stat_batch_);
  if (validation && validation->accuracy) {
    report["final"]["accuracy"] = validation->accuracy->top1;
    report["final"]["accuracy_top5"] = validation->accuracy->top5;
  }
  report["segments"] = json::parse(earlier_segments_);
  report["segments"].push_back({{"begun", begun_},
                                {"ended", ended_.empty() ? json(nullptr) : json(ended_)},
                                {"host", host_name()},
                                {"pid", getpid()},
                                {"from_update", from_update_},
                                {"last_update", progress_.updates},
                                {"exit_code", ended_.empty() ? json(nullptr) : json(exit_code)},
                                {"code", error_ ? json(error_->code) : json(nullptr)},
                                {"config_hash", config_hash_},
                                {"plan_hash", plan_hash_},
                                {"budget", bytes_or_null(budget_.memory)},
                                {"threads", threads_},
                                {"instruction_set", instruction_set_}});
  report["parent"] = parent ? json{{"run", parent->run.string()}, {"update", parent->update}} : json(nullptr);
  report["best"] = best ? plimsoll::to_json(*best) : json(nullptr);
  report["stopped"] = stopped.empty() ? json(nullptr) : json(stopped);
  if (!fault.empty()) report["fault"] = fault;
  for (const RankReport& rank : ranks) {
    report["ranks"].push_back({{"rank", rank.rank},
                               {"host", rank.host},
                               {"pid", rank.pid},
                               {"process_hwm_bytes", rank.process_hwm.n},
                               {"arena_bytes", rank.arena.n},
                               {"sent_bytes", rank.sent.n}});
  }
  return report;
}

}  // namespace plimsoll
