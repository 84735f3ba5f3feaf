// Runs the passes of an inference plan: the program, where it runs, the weights in it, and the audit if it is asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "infer/inference_plan.h"
#include "run/executor.h"
#include "weights/model_source.h"

namespace plimsoll {

class InferenceRun {
 public:
  // Loads the weights. Sets the number of threads.
  InferenceRun(InferencePlan plan, const InferenceRoom& room, const ModelSource& source, bool audit);
  ~InferenceRun();
  InferenceRun(InferenceRun&&) noexcept;

  const InferenceGraph& graph() const;
  const Plan& plan() const;
  std::int64_t size() const;
  Executor& executor();

  // Says which pass runs next; for whoever runs it on the executor.
  void enter(const Pass& pass);
  // Runs it. `feed` writes its inputs.
  void run(const Pass& pass, const std::function<void()>& feed);
  // At the end: the process took no more than was planned (E-MEM-RESERVE, exit 3); with an audit instead that what was measured
  // is what was planned (E-VERIFY, exit 7).
  void check();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
