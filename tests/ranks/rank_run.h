// Trainings of several ranks, which are threads of one process, and the same training by one of them alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collective/thread_peers.h"
#include "graph/exchange.h"
#include "ops/update/update.h"
#include "run/chat_data.h"
#include "run/session.h"
#include "tensor/half.h"
#include "weights/weight_layout.h"

namespace plimsoll {

inline std::vector<float> numbers_of(const TensorView& view) {
  std::vector<float> numbers(static_cast<std::size_t>(view.elements()));
  widen(view.dtype, view.data, numbers);
  return numbers;
}

// Gradients by name, as an update reads them. A rank fills the elements of its shards.
class Gradients : public RunObserver {
 public:
  Gradients(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}
  void of(const Executor& executor) { executor_ = &executor; }

  void before(const Instruction& instruction, bool) override {
    const auto* run = std::get_if<RunKernel>(&instruction);
    if (run == nullptr) return;
    const OpDef* op = graph_.nodes[run->node].op;
    if (op == &ops::kSumOfSquares) take(run->inputs[0]);
    if (op == &kTileSquares && graph_.values[run->inputs[0].value].name.text().ends_with(kSum)) take_sum(run->inputs[0].value);
  }
  void after(const Instruction& instruction, bool) override {
    const auto* run = std::get_if<RunKernel>(&instruction);
    if (run != nullptr && graph_.nodes[run->node].op == &kSumShards) take(run->outputs[0]);
  }

  std::map<std::string, std::vector<double>> values;

 private:
  static constexpr std::string_view kSum = ".grad.sum";

  // The shard of a gradient that its rank alone holds, in memory.
  void take_sum(ValueId sum) {
    if (!executor_->here(sum)) return;
    const auto reduces = [&](NodeId id) {
      return graph_.nodes[id].op == &kReduceShards && origin_of(graph_, graph_.nodes[id].inputs[1]) == sum;
    };
    const Node& node = graph_.nodes[*std::ranges::find_if(graph_.order, reduces)];
    const auto& a = node.attributes.as<ExchangeAttributes>();
    const std::string name = graph_.values[sum].name.text();
    std::vector<double>& into = values[name.substr(0, name.size() - std::string_view(".sum").size())];
    into.resize(static_cast<std::size_t>(a.cuts.back()), 0);
    const std::vector<float> own = numbers_of(executor_->view(sum));
    std::copy_n(own.begin(), a.elements(a.rank), into.begin() + a.begin(a.rank));
  }

  void take(const Operand& part) {
    const Value& value = graph_.values[part.value];
    const std::vector<float> all = numbers_of(executor_->view(part.value));
    std::vector<double>& into = values[value.name.text()];
    into.resize(all.size(), 0);
    const std::int64_t size = size_of(value.type.dtype);
    const auto begin = (part.offset - program_.operands[part.value].offset).n / size;
    std::copy_n(all.begin() + begin, part.bytes.n / size, into.begin() + begin);
  }

  const Graph& graph_;
  const Program& program_;
  const Executor* executor_ = nullptr;
};

struct Trained {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> reports;               // by update
  std::map<std::string, std::vector<double>> gradients;   // of the first update
  std::map<std::string, std::vector<double>> statistics;  // at the end
  std::map<std::string, std::vector<double>> averages;    // of weights, at the end; of the first rank
  EvaluationResult evaluated;
  std::string parameters, audit;
  Bytes state, gradients_held, parameters_held, gradients_here, parameters_here, sent, planned_sent;
  std::size_t summed = 0;  // numbers that the trainer sums over ranks
};

inline Machine one_thread() {
  Machine machine = round_machine();
  machine.threads = 1;
  return machine;
}

struct RankTask {
  Config config;
  const DataFiles* data = nullptr;
  DataFacts facts;
  std::int64_t micro = 1;
  int updates = 3;
  BlockMode mode = BlockMode::keep;
  std::int64_t group = 1;
  Residency residency = {};
  Watch watch = Watch::nothing;
  // Faults for negative controls: of the session of a rank before its first update; noise of the graph that differs by rank.
  std::function<void(int, Session&)> fault = {};
  bool noise_by_rank = false;
  std::optional<PlanDecisions> decisions = {};  // instead of mode, group and residency
};

inline Plan plan_of(const RankTask& task, const Config& config, const DataFacts& facts) {
  if (!task.decisions) return plan_with(config, task.micro, {task.mode}, 1, facts, task.residency, task.group, one_thread());
  const Graph graph = build_training_graph(config, facts, task.micro).graph;
  OpCatalogue catalogue(one_thread().rates, {});
  return build_plan(graph, find_units(graph), *task.decisions, plan_request(config, facts.ragged, facts.share.ranks),
                    one_thread(), catalogue, nullptr);
}

inline Trained train_rank(const RankTask& task, RankShare share, Peers* peers) {
  DataFacts facts = task.facts;
  facts.share = share;
  Config of_graph = task.config;
  if (task.noise_by_rank) of_graph.seed += share.rank;
  const Plan plan = plan_of(task, of_graph, facts);
  EXPECT_EQ(plan.stored[1].n > 0, plan.decisions.residency.active());
  TrainingGraph model = build_training_graph(of_graph, facts, task.micro);
  Trained result;
  for (const NodeId id : plan.graph.order) {
    const Node& node = plan.graph.nodes[id];
    if (node.section >= Section::forward) continue;
    const std::int64_t runs = node.section == Section::micro ? plan.decisions.window().rounds() : 1;
    result.planned_sent +=
        sent_bytes(*node.op, node.attributes, types_of(plan.graph, node.inputs), types_of(plan.graph, node.outputs)) * runs;
  }
  for (std::size_t i = 0; i < plan.graph.values.size(); ++i) {
    const Value& value = plan.graph.values[ValueId{i}];
    if (!value.persistent()) continue;
    if (value.role == Role::optimizer_state) result.state += value.bytes();
    if (value.role == Role::accumulator) result.gradients_held += value.bytes();
    if (value.role == Role::parameter) result.parameters_held += value.bytes();
    if (value.tier > 0) continue;
    if (value.role == Role::accumulator) result.gradients_here += value.bytes();
    if (value.role == Role::parameter) result.parameters_here += value.bytes();
  }
  result.summed = model.micro.losses.size() + kReported * model.training.reported.size();
  Session session(task.config, std::move(model), plan, *task.data, task.watch, peers);
  Gradients gradients(plan.graph, session.program());
  gradients.of(session.executor());
  session.watch(gradients);
  session.trainer().load(nullptr);
  if (task.fault) task.fault(share.rank, session);
  for (int update = 0; update < task.updates; ++update) {
    const Bytes before = peers == nullptr ? Bytes{} : peers->sent();
    const Metrics metrics = session.trainer().update();
    if (peers != nullptr) result.sent = peers->sent() - before;
    result.losses.push_back(metrics.loss);
    result.norms.push_back(metrics.grad_norm);
    const std::span<const double> report = session.trainer().report();
    result.reports.emplace_back(report.begin(), report.end());
    if (update == 0) result.gradients = gradients.values;
  }
  if (task.facts.validation) result.evaluated = session.trainer().evaluate_now();
  for (const ValueId id : plan.graph.parameters()) {
    const Value& value = plan.graph.values[id];
    if (value.parameter->kind != ParameterKind::statistic || value.type.dtype != DType::f32) continue;
    const std::span<const float> numbers = session.executor().view(id).as<float>();
    result.statistics[value.name.text()].assign(numbers.begin(), numbers.end());
  }
  // The first rank reads the values that are cut into shards; its hash of the parameters counts for all.
  bool shared = false;
  for (const ValueId id : plan.graph.parameters()) {
    const ValueId average = saved_value(plan.graph, id, /*averages=*/true);
    shared |= plan.graph.values[id].shard != nullptr || plan.graph.values[average].shard != nullptr;
    if (share.rank > 0 || average == id) continue;
    std::vector<double>& numbers = result.averages[plan.graph.values[average].name.text()];
    session.executor().read(average, [&](std::span<const std::byte> bytes) {
      const std::span part(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
      numbers.insert(numbers.end(), part.begin(), part.end());
    });
  }
  if (share.rank == 0 || !shared) result.parameters = session.trainer().hash_parameters();
  if (shared) share.rank == 0 ? session.executor().end_reads() : session.executor().serve_reads();
  if (task.watch == Watch::audit) result.audit = difference(plan, session.audit().phases());
  return result;
}

// Only one thread of a process may run kernels, so ranks take turns: one runs while the others wait for messages.
class TakingTurns : public Peers {
 public:
  TakingTurns(Peers& peers, std::mutex& turn) : peers_(peers), turn_(turn) { turn_.lock(); }
  ~TakingTurns() override { turn_.unlock(); }
  TakingTurns(const TakingTurns&) = delete;
  TakingTurns& operator=(const TakingTurns&) = delete;

  int rank() const override { return peers_.rank(); }
  int count() const override { return peers_.count(); }
  std::string host(int rank) const override { return peers_.host(rank); }
  void reserve(std::uint32_t events, std::size_t parts) override { peers_.reserve(events, parts); }
  void start(std::uint32_t event, const Exchange& exchange) override { peers_.start(event, exchange); }
  void wait(std::uint32_t event) override {
    turn_.unlock();
    try {
      peers_.wait(event);
    } catch (...) {
      turn_.lock();
      throw;
    }
    turn_.lock();
  }
  void limit(double seconds, bool patient) override { peers_.limit(seconds, patient); }
  void fail(const Error& error) override { peers_.fail(error); }
  Bytes sent() const override { return peers_.sent(); }

 private:
  Peers& peers_;
  std::mutex& turn_;
};

inline Trained train_alone(const RankTask& task) { return train_rank(task, {}, nullptr); }

inline std::vector<Trained> train_ranks(const RankTask& task, int ranks) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  ThreadWorld world(ranks);
  std::mutex turn;
  world.run([&](Peers& of_thread) {
    TakingTurns peers(of_thread, turn);
    all[static_cast<std::size_t>(peers.rank())] = train_rank(task, {peers.rank(), ranks}, &peers);
  });
  for (Trained& each : all) {
    if (each.parameters.empty()) each.parameters = all.front().parameters;
  }
  return all;
}

// The shards of all ranks together.
inline std::map<std::string, std::vector<double>> joined(const std::vector<Trained>& ranks) {
  std::map<std::string, std::vector<double>> all;
  for (const Trained& rank : ranks) {
    for (const auto& [name, values] : rank.gradients) {
      std::vector<double>& into = all[name];
      into.resize(values.size(), 0);
      for (std::size_t i = 0; i < values.size(); ++i) into[i] += values[i];
    }
  }
  return all;
}

inline double length(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The largest relative error of a tensor in L2. Tensors that vanish in exact arithmetic are measured against all of them.
inline double worst_error(const std::map<std::string, std::vector<double>>& got,
                          const std::map<std::string, std::vector<double>>& want) {
  double all = 0, worst = 0;
  for (const auto& [name, values] : want) all += std::pow(length(values), 2);
  for (const auto& [name, values] : want) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.size() != values.size()) return 1;
    std::vector<double> difference = found->second;
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    worst = std::max(worst, length(difference) / std::max(length(values), 1e-3 * std::sqrt(all)));
  }
  return worst;
}

// Gradients within 1e-5 a tensor, losses of update u within u 1e-5, and equal results on all ranks.
inline void expect_same_training(const std::vector<Trained>& ranks, const Trained& alone) {
  EXPECT_LT(worst_error(joined(ranks), alone.gradients), 1e-5);
  for (const Trained& rank : ranks) {
    EXPECT_EQ(rank.losses, ranks.front().losses);
    EXPECT_EQ(rank.norms, ranks.front().norms);
    EXPECT_EQ(rank.reports, ranks.front().reports);
    EXPECT_EQ(rank.parameters, ranks.front().parameters);
    EXPECT_EQ(rank.evaluated.loss, ranks.front().evaluated.loss);
    EXPECT_EQ(rank.evaluated.units, alone.evaluated.units);
  }
  for (std::size_t u = 0; u < alone.losses.size(); ++u) {
    EXPECT_NEAR(ranks.front().losses[u] / alone.losses[u], 1, 1e-5 * static_cast<double>(u + 1)) << u;
    EXPECT_NEAR(ranks.front().norms[u] / alone.norms[u], 1, 1e-4 * static_cast<double>(u + 1)) << u;
  }
  if (alone.evaluated.units > 0) EXPECT_NEAR(ranks.front().evaluated.loss / alone.evaluated.loss, 1, 2e-4);
}

}  // namespace plimsoll
