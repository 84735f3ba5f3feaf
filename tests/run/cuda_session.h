// The run of a plan on a GPU inside a test, over the emulation.
#pragma once

#include "run/cuda_device.h"
#include "run/session.h"

namespace plimsoll {

// References outlive this.
class CudaSession {
 public:
  CudaSession(const Config& config, const Plan& plan, const DataFiles& data, CudaPace pace = CudaPace::graphs, Bytes beyond = {})
      : model_(build_training_graph(config, facts_of(config, data, plan.ragged), plan.decisions.micro_batch)),
        program_(lower(plan)),
        device_(program_, plan, {std::filesystem::temp_directory_path(), pace, beyond}),
        executor_(plan.graph, program_, device_, plan.threads, plan.decisions.loss_chunks),
        sources_(config, data),
        trainer_(config, model_, plan, executor_, sources_.data()) {}

  Outcome train(int updates) {
    Outcome outcome;
    trainer_.load(nullptr);
    for (int i = 0; i < updates; ++i) {
      const Metrics metrics = trainer_.update();
      outcome.losses.push_back(std::bit_cast<std::uint64_t>(metrics.loss));
      outcome.norms.push_back(std::bit_cast<std::uint64_t>(metrics.grad_norm));
    }
    outcome.parameters = trainer_.hash_parameters();
    return outcome;
  }

  Program& program() { return program_; }
  CudaDevice& device() { return device_; }
  Executor& executor() { return executor_; }
  Trainer& trainer() { return trainer_; }

 private:
  TrainingGraph model_;
  Program program_;
  CudaDevice device_;
  Executor executor_;
  DataSources sources_;
  Trainer trainer_;
};

// "" if each phase touches exactly the planned bytes; else the first difference. Evaluates between two updates.
inline std::string audited_difference(const Config& config, const Plan& plan, const DataFiles& data) {
  CudaSession session(config, plan, data, CudaPace::kernels, Session::kBeyond);
  Audit audit(session.program(), plan.graph, session.device(), plan.arena + Session::kBeyond);
  session.executor().add_observer(audit);
  session.trainer().before_phase([&](Phase phase) { audit.enter(phase); });
  session.trainer().load(nullptr);
  session.trainer().update();
  session.trainer().evaluate_now();
  session.trainer().update();
  return difference(plan, audit.phases());
}

}  // namespace plimsoll
