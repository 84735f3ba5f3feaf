#include "collective/launcher.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace plimsoll {
namespace {

std::optional<Launched> with(const std::map<std::string, std::string>& variables) {
  return find_launcher([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(Launcher, IsFoundInTheEnvironment) {
  EXPECT_FALSE(with({}));
  const auto open_mpi = with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->count, 4);
  EXPECT_TRUE(open_mpi->joins);
  EXPECT_FALSE(with({{"OMPI_COMM_WORLD_SIZE", "1"}}));

  const auto step = with({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  ASSERT_TRUE(step);
  EXPECT_EQ(step->count, 3);
  EXPECT_TRUE(step->joins);
  const auto unknown = with({{"PMIX_RANK", "0"}});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->count, 0);
}

TEST(Launcher, OfAnotherMpiDoesNotJoin) {
  for (const char* name : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const auto launched = with({{name, "2"}});
    ASSERT_TRUE(launched) << name;
    EXPECT_FALSE(launched->joins) << name;
    EXPECT_FALSE(with({{name, "1"}})) << name;
  }
  // The tasks of the job do not count.
  EXPECT_FALSE(with({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
}

}  // namespace
}  // namespace plimsoll
