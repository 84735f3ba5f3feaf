// Commands that a user may type next, for the remedies of errors. The command line implements them.
#pragma once

#include <span>
#include <string>

#include "base/remedy.h"

namespace plimsoll {

class NextCommands {
 public:
  virtual ~NextCommands() = default;

  // Resumes from the checkpoint of this run.
  virtual std::string resume() const = 0;
  // The settings of this run with changes, in a new folder next to it.
  virtual std::string begin_beside(std::span<const Change> changes) const = 0;
  // Runs again in the same folder, unless it has records of updates.
  virtual std::string again() const = 0;
  // A new run on the present data, from the saved weights of this one.
  virtual std::string other_data() const = 0;
  // Goes on in spite of the divergence.
  virtual std::string go_on() const = 0;
  // A lower rate, from the last checkpoint if it is `good`, else from the start in another folder. A checkpoint from updates with
  // rising loss has diverged itself, at any rate.
  virtual std::string slower(bool good) const = 0;
};

}  // namespace plimsoll
