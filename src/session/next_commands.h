// The commands that a user may type next, for the remedies of errors. The command line implements them.
#pragma once

#include <span>
#include <string>

#include "base/remedy.h"

namespace plimsoll {

class NextCommands {
 public:
  virtual ~NextCommands() = default;

  // From the checkpoint of this run.
  virtual std::string resume() const = 0;
  // The settings of this run, with changes, in another folder next to it.
  virtual std::string begin_beside(std::span<const Change> changes) const = 0;
  // In the same folder, unless it tells of updates.
  virtual std::string again() const = 0;
  // Another run on the data that there are now, from the weights of this one where they have been saved.
  virtual std::string other_data() const = 0;
  // Although it has diverged.
  virtual std::string go_on() const = 0;
  // With a lower rate, from the last checkpoint if that is `good`, or from the beginning in another folder. A checkpoint of the
  // updates in which the loss rose has diverged itself, whatever the rate is from there on.
  virtual std::string slower(bool good) const = 0;
};

}  // namespace plimsoll
