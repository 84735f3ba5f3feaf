#include "collective/launcher.h"

#include <cstdlib>

namespace plimsoll {

std::optional<Launched> find_launcher(const std::function<std::string(const char*)>& variable) {
  const auto number = [&](const char* name) { return std::atoi(variable(name).c_str()); };
  const auto several = [](Launched launched) { return launched.count == 1 ? std::nullopt : std::optional(std::move(launched)); };
  if (!variable("OMPI_COMM_WORLD_SIZE").empty()) return several({"mpirun of Open MPI", number("OMPI_COMM_WORLD_SIZE")});
  // A job of several tasks may run this command in a step of one: the step counts.
  const int step = number("SLURM_STEP_NUM_TASKS");
  if (!variable("PMIX_RANK").empty()) return several({step > 0 ? "srun" : "a launcher with PMIx", step});
  if (step > 1) return Launched{"srun", step, /*joins=*/false};
  if (const int count = number("PMI_SIZE"); count > 1) return Launched{"mpiexec of MPICH", count, /*joins=*/false};
  return {};
}

}  // namespace plimsoll
