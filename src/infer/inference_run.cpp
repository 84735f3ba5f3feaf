#include "infer/inference_run.h"

#include <fmt/core.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "plan/timeline.h"
#include "program/program.h"
#include "records/run_report.h"
#include "run/audit.h"
#include "run/place.h"
#include "weights/adapter_weights.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

PlaceRequest place_for(const InferenceRoom& room, bool audit) {
  PlaceRequest request;
  if (room.disk) request.folder = room.disk->folder;
  if (audit) request.beyond = kAuditBeyond;
  return request;
}

Program lowered(const Plan& plan) {
  Program program = lower(plan);
  verify(program, plan.graph);
  return program;
}

// Caches, staging and totals begin as zeros.
void clear_others(const Graph& graph, Executor& executor) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.persistent() || value.parameter || !executor.here(ValueId{i})) continue;
    executor.write(ValueId{i}, [](std::span<std::byte> part) { std::ranges::fill(part, std::byte{0}); });
  }
}

}  // namespace

struct InferenceRun::State {
  State(InferencePlan from, const InferenceRoom& room, bool audit)
      : planned(std::move(from)),
        program(lowered(planned.plan)),
        place(program, planned.plan, place_for(room, audit)),
        executor(planned.plan.graph, program, place.device(), planned.plan.threads, 1) {
    if (!audit) return;
    watch.emplace(program, planned.plan.graph, place.device(), place.mapped());
    executor.add_observer(*watch);
  }

  InferencePlan planned;
  Program program;
  Place place;
  Executor executor;
  std::optional<Audit> watch;
};

InferenceRun::InferenceRun(InferencePlan plan, const InferenceRoom& room, const ModelSource& source, bool audit) {
  cpu::set_thread_count(plan.plan.threads);
  state_ = std::make_unique<State>(std::move(plan), room, audit);
  if (state_->watch) state_->watch->enter(Phase::load);
  Executor& executor = state_->executor;
  const Graph& graph = state_->planned.plan.graph;
  executor.load([&] {
    load_weights(graph, source.model, source.folder, executor);
    if (source.adapter.active()) fill_adapter(graph, source.model, source.adapter, /*seed=*/0, executor);
    clear_others(graph, executor);
  });
}

InferenceRun::~InferenceRun() = default;
InferenceRun::InferenceRun(InferenceRun&&) noexcept = default;

const InferenceGraph& InferenceRun::graph() const { return state_->planned.graph; }
const Plan& InferenceRun::plan() const { return state_->planned.plan; }
std::int64_t InferenceRun::size() const { return state_->planned.size; }
Executor& InferenceRun::executor() { return state_->executor; }

void InferenceRun::enter(const Pass& pass) {
  if (state_->watch) state_->watch->enter(phase_of(pass.section));
}

void InferenceRun::run(const Pass& pass, const std::function<void()>& feed) {
  enter(pass);
  state_->executor.run(pass.section, false, [&](Section) { feed(); });
}

void InferenceRun::check() {
  const Plan& plan = state_->planned.plan;
  if (state_->watch) {
    const std::string difference = audit_difference(plan.phases, state_->watch->phases());
    if (!difference.empty()) throw audit_error(difference);
    return;
  }
  if (peak_resident() <= plan.process) return;
  throw Error(ErrorKind::internal, ExitCode::does_not_fit, "E-MEM-RESERVE", "memory",
              fmt::format("the process took {}, {} were planned", to_text(peak_resident()), to_text(plan.process)),
              "no more than planned", {"remove the machine file; the next command measures the machine again"});
}

}  // namespace plimsoll
