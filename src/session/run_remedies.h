// The commands that go on after an error of a run. The command line adds CONFIG and its options.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "config/config.h"

namespace plimsoll {

class RunFolder;

class RunRemedies {
 public:
  // Both outlive the object.
  RunRemedies(const Config& config, const RunFolder& folder) : config_(config), folder_(folder) {}

  // Resumes from the newest checkpoint of this run.
  Remedy resume(const Changes& changes = {}) const;
  // Resumes in spite of the divergence.
  Remedy go_on() const { return resume({{"train.on_divergence", "continue"}}); }
  // The settings of this run with changes, in a new folder next to it.
  Remedy begin_beside(const Changes& changes) const;
  // Runs again in the same folder, unless it has records of updates.
  Remedy again() const;
  // A new run on the present data, from the saved weights of this one.
  Remedy other_data() const;
  // A lower learning rate: from the newest checkpoint of at most `good_updates`, else from the start in another folder. A
  // checkpoint of later updates, with rising loss, has diverged itself.
  Remedy slower(std::int64_t good_updates) const;

 private:
  const Config& config_;
  const RunFolder& folder_;
};

}  // namespace plimsoll
