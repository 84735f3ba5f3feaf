#include "profile/profile_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/memory_series.h"
#include "prepare/plan_json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

template <class Number>
json number_or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json(nullptr);
}

json next_json(const Profile& profile) {
  const std::optional<NextStep>& next = profile.verdict.next;
  if (!next) return nullptr;
  return {{"text", next->text},
          {"arguments", profile.next_arguments},
          {"update_seconds", next->update_seconds},
          {"saved", next->saved},
          {"changes_result", next->changes_result}};
}

json parts_json(const UpdateParts& parts) {
  return {{"kernels", parts.kernels}, {"update", parts.update}, {"copies", parts.copies},
          {"data", parts.data},       {"feed", parts.feed},     {"other", parts.other}};
}

json ops_json(const std::vector<OpRow>& rows) {
  json list = json::array();
  for (const OpRow& row : rows) {
    list.push_back({{"op", row.measured.op},
                    {"section", row.measured.section},
                    {"runs", row.runs},
                    {"seconds", row.measured.seconds},
                    {"predicted", row.predicted},
                    {"bound", row.measured.bound}});
  }
  return list;
}

json peak_json(const LivePeak& peak) {
  json list = json::array();
  for (const LiveValue& value : peak.values) {
    list.push_back({{"value", value.value},
                    {"model_line", value.line},
                    {"owner", value.owner},
                    {"bytes", value.bytes.n},
                    {"born", value.born},
                    {"dies", value.dies},
                    {"why", value.why},
                    {"recompute_seconds", number_or_null(value.recompute)},
                    {"move_seconds", number_or_null(value.move)}});
  }
  return list;
}

// The windows of the updates, the warm-up first. Each has the samples up to its end.
json windows_json(const MeasuredUpdates& measured, std::int64_t micro_batch) {
  json list = json::array();
  for (const Metrics& update : measured.updates) {
    list.push_back({{"update", update.update},
                    {"samples", update.samples},
                    {"rows", update.micro_steps * micro_batch},
                    {"micro_steps", update.micro_steps},
                    {"units", update.units},
                    {"padding", update.padding},
                    {"loss", update.loss},
                    {"seconds", update.seconds},
                    {"wait_seconds", number_or_null(update.wait_seconds)}});
  }
  return list;
}

// The audit's bytes beside the planned ones; null without an audit.
json audit_json(const std::vector<PhaseAudit>& audited, const Plan& plan) {
  if (audited.empty()) return nullptr;
  json list = json::array();
  for (const PhaseAudit& phase : audited) {
    const auto planned = std::ranges::find(plan.phases, phase.phase, &PhasePlan::phase);
    if (planned == plan.phases.end()) continue;
    list.push_back({{"phase", phase.name},
                    {"arena_bytes", phase.arena.n},
                    {"live_bytes", phase.live.n},
                    {"planned_arena_bytes", planned->arena.n},
                    {"planned_live_bytes", planned->live.n}});
  }
  return list;
}

}  // namespace

json to_json(const Profile& profile, const Plan& plan, const Budget& budget) {
  const MeasuredUpdates& measured = profile.measured;
  return {{"schema", "plimsoll.profile/1"},
          {"verdict", profile.verdict.verdict},
          {"why", profile.verdict.why},
          {"next", next_json(profile)},
          {"plan_hash", plan.plan_hash},
          {"update_seconds", measured.update_seconds()},
          {"predicted_seconds", plan.update_seconds},
          {"parts", parts_json(profile.parts)},
          {"ops", ops_json(profile.ops)},
          {"lanes", lanes_json(plan)},
          {"timeline", timeline_json(plan, kEveryStep)},
          {"peak", peak_json(profile.peak)},
          {"peak_at", {{"phase", profile.peak.phase}, {"step", profile.peak.step}, {"live_bytes", profile.peak.live.n}}},
          {"windows", windows_json(measured, plan.decisions.micro_batch)},
          {"evaluate_seconds", number_or_null(measured.evaluate_seconds)},
          {"save_seconds", measured.save_seconds},
          {"process",
           {{"budget_bytes", bytes_or_null(budget.memory)},
            {"arena_bytes", plan.arena.n},
            {"planned_bytes", measured.planned.n},
            {"measured_bytes", measured.process.n},
            {"reserve", reserve_json(measured.reserve)}}},
          {"shared", measured.sharing.shared() ? json(sharing_text(measured.sharing)) : json(nullptr)},
          {"audit", audit_json(measured.audited, plan)}};
}

}  // namespace plimsoll
