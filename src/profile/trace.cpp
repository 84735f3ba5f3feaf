#include "profile/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/visit.h"
#include "plan/memory_series.h"
#include "plan/tiers/lanes.h"
#include "profile/op_seconds.h"
#include "profile/trace_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr int kMeasured = 1, kPlanned = 2;
constexpr int kKernels = 1, kReading = 2, kWaits = 3, kWhole = 4, kFirstLane = 5;

// Two tracks for each tier or link past the first: inward, outward.
int lane_of(std::size_t number, bool outward) { return kFirstLane + 2 * static_cast<int>(number) + (outward ? 1 : 0); }

std::string args_of(const Graph& graph, const Node& node, double predicted) {
  return json{{"line", node.line}, {"section", graph.name(node.section)}, {"predicted_us", 1e6 * predicted}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

// The bytes of each tier by owner as counters, one sample at each step of a phase.
class Counters {
 public:
  Counters(TraceFile& file, const Plan& plan) : file_(file), series_(memory_series(plan, kEveryStep)) {}

  // `at`: the time of each step in [range.begin, range.end).
  void write(int process, const std::string& phase, StepRange range, const std::vector<double>& at) {
    const auto found = std::ranges::find(series_, phase, &PhaseSeries::phase);
    if (found == series_.end()) return;
    for (const TierSeries& tier : found->tiers) {
      const std::string name = tier.tier + " bytes";
      for (int step = range.begin; step < range.end; ++step) {
        const auto point = static_cast<std::size_t>(step - found->steps.front());
        std::vector<std::pair<std::string, Bytes>> values;
        for (const OwnerSeries& owner : tier.owners) values.emplace_back(owner.owner, owner.bytes[point]);
        file_.counter(process, name, at[static_cast<std::size_t>(step - range.begin)], values);
      }
    }
  }

 private:
  TraceFile& file_;
  std::vector<PhaseSeries> series_;
};

void write_whole(TraceFile& file, int process, const std::string& name, double seconds) {
  file.name_track(process, kWhole, "update");
  file.slice(process, kWhole, name, 0, seconds);
}

// The phase of a run of a section.
std::string phase_name(const Graph& graph, std::int64_t rounds, Section section, bool window_start) {
  if (section != Section::micro && section != Section::update) return std::string(name(graph, phase_of(section)));
  const bool first = section == Section::micro ? window_start : rounds == 1;
  return std::string(name(graph, first ? Phase::first : Phase::steady));
}

class MeasuredUpdate {
 public:
  MeasuredUpdate(TraceFile& file, Counters& counters, const Plan& plan, const Program& program, const UpdateTimes& times)
      : file_(file),
        counters_(counters),
        plan_(plan),
        program_(program),
        times_(times),
        step_of_(steps_of_nodes(plan.timeline)) {}

  void write() {
    file_.name_process(kMeasured, "measured update");
    write_whole(file_, kMeasured, fmt::format("update {}", times_.update), times_.end - times_.begin);
    file_.name_track(kMeasured, kKernels, "kernels");
    for (const SectionTimes& section : times_.sections) write(section);
    write_copies();
    write_readings();
  }

 private:
  struct Copy {
    std::size_t lane = 0;
    bool outward = false;
    double start = 0, end = 0;
    std::string name;
  };

  double since_begin(const SectionTimes& section, double seconds) const { return section.begin + seconds - times_.begin; }

  void write(const SectionTimes& section) {
    const StepRange range = plan_.timeline.of(section.section);
    const std::vector<Instruction>& instructions = program_.of(section.section);
    std::vector<double> at(static_cast<std::size_t>(range.end - range.begin), -1);
    const auto reached = [&](int step, double when) {
      double& first = at[static_cast<std::size_t>(step - range.begin)];
      if (first < 0) first = when;
    };
    double last = since_begin(section, 0);
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const InstructionTimer::Span span = section.spans.at(i);
      if (!span.ran()) continue;
      const double begin = since_begin(section, span.begin), end = begin + span.seconds;
      last = std::max(last, end);
      write(instructions[i], section, begin, end, [&](int step) { reached(step, begin); });
    }
    fill(at, last);
    counters_.write(kMeasured, phase_name(plan_.graph, plan_.timeline.rounds, section.section, section.window_start), range, at);
  }

  // Steps without an instruction of their own get the time of the next one; times do not go back.
  static void fill(std::vector<double>& at, double last) {
    for (std::size_t i = at.size(); i-- > 0;) {
      if (at[i] < 0) at[i] = last;
      last = std::min(last, at[i]);
      at[i] = last;
    }
  }

  template <class Reached>
  void write(const Instruction& instruction, const SectionTimes& section, double begin, double end, Reached&& reached) {
    const StepRange range = plan_.timeline.of(section.section);
    const auto show = [&](std::string_view name, std::string_view args = {}) {
      file_.slice(kMeasured, kKernels, name, begin, end, args);
    };
    match(
        instruction,
        [&](const RunKernel& run) {
          const Node& node = plan_.graph.nodes[run.node];
          const int step = step_of_.at(run.node);
          reached(step);
          const double predicted = plan_.kernels[static_cast<std::size_t>(step)].of(section.window_start).seconds;
          show(op_name(plan_.graph, node), args_of(plan_.graph, node, predicted));
        },
        [&](const Feed&) { reached(range.begin), show("feed"); }, [&](const Fetch&) { reached(range.end - 1), show("fetch"); },
        [&](const StartCopy& copy) {
          show("start a copy");
          const bool outward = copy.from.tier == 0;
          const std::size_t tier = outward ? copy.to.tier : copy.from.tier;
          const ValueId value = outward ? copy.to.value : copy.from.value;
          under_way_[{tier, copy.event}] = copies_.size();
          copies_.push_back(
              {tier - 1, outward, begin, end, value.valid() ? std::string(plan_.graph.values[value].name) : "copy"});
        },
        [&](const WaitCopy& copy) {
          show("wait for a copy");
          const auto found = under_way_.find({copy.tier, copy.event});
          if (found == under_way_.end()) return;
          copies_[found->second].end = end;
          under_way_.erase(found);
        },
        [&](const StartExchange&) { show("start an exchange"); }, [&](const WaitExchange&) { show("wait for other ranks"); },
        [](const LoadState&) {}, [](const SaveState&) {});
  }

  // The copies of a lane, in the order of their starts. A copy ends when it is known to be over: at the wait for it, or at an
  // earlier wait for a later one. It begins at its start, or at the end of the one before it.
  void write_copies() {
    std::map<std::pair<std::size_t, bool>, std::vector<Copy>> lanes;
    for (Copy& copy : copies_) lanes[{copy.lane, copy.outward}].push_back(std::move(copy));
    for (auto& [lane, copies] : lanes) {
      const int track = lane_of(lane.first, lane.second);
      const std::string& tier = plan_.tiers[lane.first + 1].name;
      file_.name_track(kMeasured, track, lane.second ? "copies to " + tier : "copies from " + tier);
      for (std::size_t i = copies.size(); i-- > 1;) copies[i - 1].end = std::min(copies[i - 1].end, copies[i].end);
      for (const Copy& copy : copies) file_.slice(kMeasured, track, copy.name, copy.start, copy.end);
    }
  }

  void write_readings() {
    if (times_.readings.empty()) return;
    file_.name_track(kMeasured, kReading, "reading of data, ahead");
    file_.name_track(kMeasured, kWaits, "waits for data");
    const double length = times_.end - times_.begin;
    for (const Prefetcher::Reading& reading : times_.readings) {
      const double begin = std::clamp(reading.begin - times_.begin, 0.0, length);
      const double end = std::clamp(reading.end - times_.begin, 0.0, length);
      if (end > begin) file_.slice(kMeasured, kReading, "read a micro-batch", begin, end);
      if (reading.waited > 0) file_.slice(kMeasured, kWaits, "wait for data", end - reading.waited, end);
    }
  }

  TraceFile& file_;
  Counters& counters_;
  const Plan& plan_;
  const Program& program_;
  const UpdateTimes& times_;
  std::map<NodeId, int> step_of_;
  std::vector<Copy> copies_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> under_way_;
};

// The update as the plan predicts it.
class PlannedUpdate {
 public:
  // `passes`: those within the window, after its first round.
  PlannedUpdate(TraceFile& file, Counters& counters, const Simulation& simulation, const Residency& residency,
                const Machine& machine, std::set<Section> passes)
      : file_(file),
        counters_(counters),
        simulation_(simulation),
        machine_(machine),
        model_(simulation, residency, machine),
        ways_(find_ways(machine)),
        passes_(std::move(passes)) {}

  void write() {
    file_.name_process(kPlanned, "planned update");
    file_.name_track(kPlanned, kKernels, "kernels");
    const Timeline& timeline = simulation_.timeline;
    for (std::int64_t round = 0; round < timeline.rounds; ++round) {
      run(timeline.micro, LaneClock(round == 0), phase(Section::micro, round == 0));
      if (round > 0) continue;
      for (const Section pass : passes_) run(timeline.of(pass), LaneClock(), phase(pass, false));
    }
    if (!timeline.update.empty()) run(timeline.update, LaneClock(), phase(Section::update, false));
    write_whole(file_, kPlanned, "update", begin_);
  }

 private:
  std::string phase(Section section, bool window_start) const {
    return phase_name(simulation_.graph, simulation_.timeline.rounds, section, window_start);
  }
  static double now(const LaneClock& clock) { return clock.busy().kernels + clock.stall(); }

  void run(StepRange range, LaneClock clock, const std::string& phase) {
    std::vector<double> at;
    for (int step = range.begin; step < range.end; ++step) {
      at.push_back(begin_ + now(clock));
      const LaneSeconds before = clock.busy();
      clock.run(model_.events_of(step));
      write_kernel(step, clock.busy().kernels - before.kernels, now(clock));
      for (std::size_t link = 0; link < ways_.links.size(); ++link) {
        write_lane(step, link, false, clock.busy().in[link] - before.in[link], clock);
        write_lane(step, link, true, clock.busy().out[link] - before.out[link], clock);
      }
    }
    counters_.write(kPlanned, phase, range, at);
    begin_ += now(clock);
  }

  void write_kernel(int step, double seconds, double end) {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    if (seconds <= 0 || what.kind != Step::Kind::node) return;
    const Node& node = simulation_.graph.nodes[what.node];
    file_.slice(kPlanned, kKernels, op_name(simulation_.graph, node), begin_ + end - seconds, begin_ + end,
                args_of(simulation_.graph, node, seconds));
  }

  void write_lane(int step, std::size_t link, bool outward, double seconds, const LaneClock& clock) {
    if (seconds <= 0) return;
    const int track = lane_of(link, outward);
    if (named_.insert(track).second) {
      const std::string& tier = machine_.tiers[outward ? ways_.links[link].out->to : ways_.links[link].in->from].name;
      file_.name_track(kPlanned, track, outward ? "copies to " + tier : "copies from " + tier);
    }
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    const double end = begin_ + clock.end_of(link, outward);
    file_.slice(kPlanned, track, std::string(simulation_.graph.nodes[what.node].line), end - seconds, end);
  }

  TraceFile& file_;
  Counters& counters_;
  const Simulation& simulation_;
  const Machine& machine_;
  LaneModel model_;
  Ways ways_;
  std::set<Section> passes_;
  double begin_ = 0;  // of the run of a section
  std::set<int> named_;
};

}  // namespace

void write_trace(const std::filesystem::path& path, Plan plan, const Program& program, const Machine& machine,
                 const UpdateTimes& times) {
  TraceFile file(path);
  Counters counters(file, plan);
  MeasuredUpdate(file, counters, plan, program, times).write();
  const Simulation simulation{std::move(plan.graph), std::move(plan.timeline), std::move(plan.kernels),
                              std::move(plan.lifetimes)};
  std::set<Section> passes;
  for (const SectionTimes& section : times.sections) {
    if (reads_window(simulation.graph, section.section)) passes.insert(section.section);
  }
  PlannedUpdate(file, counters, simulation, plan.decisions.residency, machine, std::move(passes)).write();
  file.finish();
}

}  // namespace plimsoll
