// The run of a plan inside a test: random tokens, arena, executor, trainer and, on request, the audit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/token_files.h"
#include "data/token_stream.h"
#include "device/cpu/parallel.h"
#include "plan/small_models.h"
#include "prepare/epochs.h"
#include "program/program.h"
#include "records/run_report.h"
#include "run/audit.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "run/stores.h"
#include "train/trainer.h"
#include "weights/weights.h"

namespace plimsoll {

// Token files for one vocabulary, with n tokens each.
struct TokenData {
  ScratchFolder folder;
  DataFiles files;

  TokenData(std::int64_t vocab, int train, int validation) {
    files.train = stream(write("train.bin", vocab, train, 1));
    if (validation > 0) files.validation = stream(write("validation.bin", vocab, validation, 2));
  }
  DataFacts facts() const { return {.row = files.train->row_shape(false), .validation = files.validation != nullptr}; }
  static std::unique_ptr<DataSet> stream(TokenFile file) { return std::make_unique<TokenStream>(std::move(file)); }
  const TokenFile& train() const { return dynamic_cast<const TokenStream&>(*files.train).file(); }
  TokenFile write(const char* name, std::int64_t vocab, int count, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<int> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int>(random() % static_cast<unsigned>(vocab)));
    write_raw(folder / name, u16_bytes(tokens));
    return open_source({folder / name, "u16", vocab, {}, {}});
  }
};

struct Outcome {
  std::vector<std::uint64_t> losses, norms;  // bits
  std::string parameters;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

enum class Watch { nothing, audit };

// References outlive this.
class Session {
 public:
  static constexpr Bytes kBeyond{1 << 20};

  Session(const Config& config, const Plan& plan, const DataFiles& data, Watch watch = Watch::nothing)
      : Session(config, build_training_graph(config, facts_of(config, data, plan.ragged), plan.decisions.micro_batch), plan, data,
                watch) {}
  // `model`: the graph that was planned.
  Session(const Config& config, TrainingGraph model, const Plan& plan, const DataFiles& data, Watch watch = Watch::nothing,
          Peers* peers = nullptr)
      : graph_(plan.graph),
        model_(std::move(model)),
        program_(lower(plan)),
        arena_(plan.arena, watch == Watch::audit ? kBeyond : Bytes{0}) {
    cpu::set_thread_count(plan.threads);
    stores_.emplace(program_, plan, std::filesystem::temp_directory_path());
    device_.emplace(arena_, stores_->all());
    if (peers != nullptr) {
      const ExchangeDemand demand = exchange_demand(program_, peers->count());
      peers->reserve(demand.events, demand.parts);
    }
    executor_.emplace(plan.graph, program_, *device_, plan.threads, plan.decisions.loss_chunks, peers);
    sources_.emplace(config, data);
    trainer_.emplace(config, model_, plan, *executor_, sources_->data());
    if (watch == Watch::nothing) return;
    audit_.emplace(program_, plan.graph, *device_, arena_.mapped());
    executor_->add_observer(*audit_);
    trainer_->before_phase([this](Phase phase) { audit_->enter(phase); });
  }

  Trainer& trainer() { return *trainer_; }
  Device& device() { return *device_; }
  const Executor& executor() const { return *executor_; }
  const Graph& graph() const { return graph_; }
  void watch(RunObserver& observer) { executor_->add_observer(observer); }
  Audit& audit() { return *audit_; }
  const Program& program() const { return program_; }
  PageFile* pages() { return stores_->disk(); }
  const Stores& stores() const { return *stores_; }

  Outcome train(int updates) {
    Outcome outcome;
    trainer_->load(nullptr);
    for (int i = 0; i < updates; ++i) {
      const Metrics metrics = trainer_->update();
      outcome.losses.push_back(std::bit_cast<std::uint64_t>(metrics.loss));
      outcome.norms.push_back(std::bit_cast<std::uint64_t>(metrics.grad_norm));
    }
    outcome.parameters = trainer_->hash_parameters();
    return outcome;
  }
  // Runs every phase, including evaluation between updates.
  void run_all_phases(const DataFiles& data) {
    const ScratchFolder folder;
    trainer_->load(nullptr);
    trainer_->update();
    if (data.validation) trainer_->evaluate_now();
    trainer_->update();
    trainer_->save_checkpoint_to(folder / "checkpoint");
    if (data.validation) trainer_->evaluate_now();
    trainer_->save_weights_to(folder / "weights");
  }

 private:
  const Graph& graph_;
  TrainingGraph model_;
  Program program_;
  Arena arena_;
  std::optional<Stores> stores_;
  std::optional<CpuDevice> device_;
  std::optional<Executor> executor_;
  std::optional<DataSources> sources_;
  std::optional<Trainer> trainer_;
  std::optional<Audit> audit_;
};

// "" if the audit found the planned bytes in every phase; else the first difference.
inline std::string difference(const Plan& plan, const std::vector<PhaseAudit>& measured) {
  return audit_difference(plan.phases, measured);
}

// The verdict of the `check` device and of the audit's ranges on a program that computes nothing: "" or the message.
inline std::string replay(const Plan& plan, const Program& program, bool compare_live = true) {
  NullDevice device;
  Executor executor(plan.graph, program, device, plan.threads, plan.decisions.loss_chunks);
  Audit audit(program, plan.graph, device, plan.arena + Session::kBeyond);
  executor.add_observer(audit);
  const auto nothing = [](Section) {};
  try {
    audit.enter(Phase::load);
    executor.load([] {});
    for (int window = 0; window < 2; ++window) {
      audit.enter(Phase::first);
      for (std::int64_t micro = 0; micro < program.rounds; ++micro) {
        if (micro == 1) audit.enter(Phase::steady);
        executor.run(Section::micro, micro == 0, nothing);
      }
      executor.run(Section::update, false, nothing);
      if (const auto evaluate = plan.graph.find_forward("evaluate")) {
        audit.enter(phase_of(*evaluate));
        executor.run(*evaluate, true, nothing);
        executor.run(*evaluate, false, nothing);
      }
      if (!program.save.empty()) {
        audit.enter(Phase::save);
        executor.save([] {});
      }
    }
  } catch (const Error& error) {
    return error.message;
  }
  if (!compare_live) return {};
  for (const PhaseAudit& phase : audit.phases()) {
    for (const PhasePlan& planned : plan.phases) {
      if (planned.phase == phase.phase && planned.live != phase.live) {
        return phase.name + ": live " + std::to_string(planned.live.n) + " planned, " + std::to_string(phase.live.n) +
               " measured";
      }
    }
  }
  return {};
}

}  // namespace plimsoll
