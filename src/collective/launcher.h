// The start of this process by a launcher of parallel programs, as its environment shows it.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace plimsoll {

struct Launched {
  std::string by;     // "mpirun of Open MPI"
  int count = 0;      // processes; 0: unknown
  bool joins = true;  // false: Open MPI takes processes of this launcher for single ones
};
// Nothing for a process that was started alone. `variable` gives a variable of the environment, empty if it is not set.
std::optional<Launched> find_launcher(const std::function<std::string(const char*)>& variable);

}  // namespace plimsoll
