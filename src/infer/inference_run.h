// Runs the passes of an inference plan: the program, its device, the loaded weights, and an optional audit.
#pragma once

#include <functional>
#include <memory>

#include "infer/inference_plan.h"
#include "run/executor.h"
#include "weights/model_source.h"

namespace plimsoll {

class InferenceRun {
 public:
  // Loads the weights and sets the number of threads.
  InferenceRun(InferencePlan plan, const InferenceRoom& room, const ModelSource& source, bool audit);
  ~InferenceRun();
  InferenceRun(InferenceRun&&) noexcept;

  const InferenceGraph& graph() const;
  const Plan& plan() const;
  std::int64_t size() const;
  Executor& executor();

  // Announces the next pass, for callers that run it on the executor.
  void enter(const Pass& pass);
  // Runs a pass; `feed` writes its inputs.
  void run(const Pass& pass, const std::function<void()>& feed);
  // Final check: the process took at most the planned bytes (E-MEM-RESERVE, exit 3). With an audit: the measured bytes are the
  // planned ones (E-VERIFY, exit 7).
  void check();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
