// Plans for a GPU that nobody has here: GPT-2 at a context of 1,024 and 524,288 tokens an update on the H200 of machines/. Each
// budget has a plan within it, whose program is right on the `check` device and computes nothing on `null`.
#include <ostream>
#include <string>

#include "models/all.h"
#include "prepare/planning.h"
#include "run/session.h"

namespace plimsoll {
namespace {

struct GpuCase {
  const char* preset;
  std::int64_t gigabytes;
};
void PrintTo(const GpuCase& c, std::ostream* out) { *out << c.preset << " in " << c.gigabytes << " GiB"; }

class GpuPlans : public testing::TestWithParam<GpuCase> {};

TEST_P(GpuPlans, FitAndAreRightOnTheCheckDevice) {
  const auto [preset, gigabytes] = GetParam();
  Config config;
  config.model.config = model_preset(preset);
  config.model.context = facts_of(config.model.config).positions;
  config.train.effective_batch = 512;
  config.precision.compute = DType::bf16;
  config.memory.budget = kGiB * gigabytes;
  config.memory.host_memory = kGiB * 40;
  const MachineRecord machine = read_machine_file(PLIMSOLL_SOURCE_DIR "/machines/h200.toml");
  PlanRequest request = plan_request(config);
  request.beyond = {*config.memory.host_memory};
  OpCatalogue catalogue = catalogue_of(machine);
  PlanSpace space(source_for(config, kTrainAlone), request, machine.machine, catalogue);
  const Plan plan = std::get<Plan>(space.best({config.memory.budget, config.memory.host_memory, {}}));
  EXPECT_LE(plan.process, *config.memory.budget);
  EXPECT_LE(plan.host, *config.memory.host_memory);
  const Program program = lower(plan);
  verify(program, plan.graph);
  EXPECT_EQ(replay(plan, program), "");
}

INSTANTIATE_TEST_SUITE_P(H200, GpuPlans,
                         testing::Values(GpuCase{"gpt2", 4}, GpuCase{"gpt2", 8}, GpuCase{"gpt2", 16}, GpuCase{"gpt2", 40},
                                         GpuCase{"gpt2-xl", 4}, GpuCase{"gpt2-xl", 8}, GpuCase{"gpt2-xl", 16},
                                         GpuCase{"gpt2-xl", 40}),
                         [](const auto& each) {
                           std::string name = std::string(each.param.preset) + "_" + std::to_string(each.param.gigabytes);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll
