// Plans for a command with additional arguments: levers, remedies and solved keys state arguments, and each of them is planned as
// the command line would read it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "prepare/planning.h"

namespace plimsoll {

using Arguments = std::vector<std::string>;  // of the command line, in pairs

// {"--set", "a=1", "--set", "b=2"} for {"a=1", "b=2"}.
Arguments sets(std::initializer_list<std::string> assignments);
Arguments both(Arguments a, const Arguments& b);
// Bytes as they stand in arguments: whole GiB, else whole MiB, else all of them.
std::string argument_of(Bytes size);

struct Asked {
  Config config;
  PlanRequest request;
  Budget budget;         // without one of memory: the one that was settled before
  RunSettings settings;  // from which the configuration was made
  DataFacts facts;
};

// Requires `input.source`. Throws config_error if the configuration refuses the arguments.
Asked with_arguments(const PlanningInput& input, const Arguments& arguments);

}  // namespace plimsoll
