// The files of a run with a line per event: metrics.jsonl, eval.jsonl, samples.jsonl and events.jsonl.
#pragma once

#include "session/events.h"

namespace plimsoll {

class RunFolder;

class RunLines final : public Consumer {
 public:
  explicit RunLines(RunFolder& folder) : folder_(folder) {}

  void see(const Event& event) override;

 private:
  void append(const Overflow& overflow) const;
  void append(const ValidationRises& rises) const;
  void append(const Warned& warned) const;
  void append(const NotSaved& not_saved) const;
  void append_data() const;

  RunFolder& folder_;
  SampleCounts data_;
};

}  // namespace plimsoll
