// The run of a plan of a random network: arena, stores, executor, and the steps of a trainer.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/arena.h"
#include "ops/update/update.h"
#include "program/program.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "run/random_graph.h"
#include "run/stores.h"
#include "weights/weights.h"

namespace plimsoll {

class NetworkRun {
 public:
  static constexpr Bytes kBeyond{1 << 20};

  // References outlive this.
  NetworkRun(const RandomNetwork& network, const Plan& plan, std::int64_t effective_batch,
             const std::filesystem::path& folder = std::filesystem::temp_directory_path())
      : network_(network),
        plan_(plan),
        inverse_units_(1.0f / static_cast<float>(effective_batch * network.context)),
        program_(lower(plan)),
        arena_(plan.arena, kBeyond),
        stores_(program_, plan, folder),
        device_(arena_, stores_.all()),
        executor_(plan.graph, program_, device_, plan.threads, plan.decisions.loss_chunks) {}

  const Program& program() const { return program_; }
  const Arena& arena() const { return arena_; }
  Device& device() { return device_; }
  const Stores& stores() const { return stores_; }
  Executor& executor() { return executor_; }
  void before_phase(std::function<void(Phase)> enter) { enter_ = std::move(enter); }

  void load() {
    enter_(Phase::load);
    executor_.load([&] {
      for (const Operand& state : executor_.state()) {
        const TensorView view = executor_.view(state.value);
        std::fill_n(view.data, view.bytes(), std::byte{0});
      }
      initialize_parameters(plan_.graph, 1, executor_);
    });
  }

  void update() {
    ++updates_;
    const auto feed = [&](Section section) { section == Section::micro ? feed_micro() : feed_update(); };
    enter_(Phase::first);
    for (std::int64_t micro = 0; micro < plan_.decisions.window().rounds(); ++micro) {
      if (micro == 1) enter_(Phase::steady);
      executor_.run(Section::micro, micro == 0, feed);
    }
    executor_.run(Section::update, false, feed);
  }

  void save() {
    enter_(Phase::save);
    executor_.save([] {});
  }

  std::string hash_parameters() { return parameters_hash(plan_.graph, executor_); }

 private:
  // Fills the value of each micro-batch of a group.
  template <class T, class Next>
  void fill(ValueId value, const Next& next) {
    for (const ValueId replica : replicas_of(plan_.graph, value)) {
      for (T& item : executor_.view(replica).as<T>()) item = next();
    }
  }

  void feed_micro() {
    const auto token = [&] { return static_cast<std::int32_t>(tokens_() % static_cast<unsigned>(network_.vocab)); };
    const std::vector<ValueId> all_tokens = replicas_of(plan_.graph, network_.tokens),
                               all_targets = replicas_of(plan_.graph, network_.targets);
    for (std::size_t replica = 0; replica < all_tokens.size(); ++replica) {
      for (std::int32_t& each : executor_.view(all_tokens[replica]).as<std::int32_t>()) each = token();
      for (std::int32_t& each : executor_.view(all_targets[replica]).as<std::int32_t>()) each = token();
    }
    bool low = false;
    fill<std::uint32_t>(network_.sample_ids, [&] { return (low = !low) ? 0 : sample_++; });
    fill<float>(network_.inverse_units, [&] { return inverse_units_; });
    if (!network_.training.step.valid()) return;
    for (const ValueId step : replicas_of(plan_.graph, network_.training.step)) {
      executor_.view(step).as<std::uint32_t>()[0] = static_cast<std::uint32_t>(updates_);
      executor_.view(step).as<std::uint32_t>()[1] = micro_++;
    }
  }

  void feed_update() {
    double* scalars = executor_.view(network_.training.update_scalars).as_pointer<double>();
    scalars[ops::kLearningRate] = 1e-2;
    scalars[ops::kMomentum] = 0.9;
    scalars[ops::kBiasCorrection1] = 1 - std::pow(0.9, updates_);
    scalars[ops::kBiasCorrection2] = 1 - std::pow(0.95, updates_);
    scalars[ops::kUpdate] = updates_;
    scalars[ops::kInverseScale] = 1;
    micro_ = 0;
  }

  const RandomNetwork& network_;
  const Plan& plan_;
  float inverse_units_;
  Program program_;
  Arena arena_;
  Stores stores_;
  CpuDevice device_;
  Executor executor_;
  std::function<void(Phase)> enter_ = [](Phase) {};
  std::mt19937 tokens_{99};
  std::uint32_t sample_ = 0, micro_ = 0;
  int updates_ = 0;
};

}  // namespace plimsoll
