// At no instruction the audit sees more live bytes than planned, in memory and from a disk; a plan that promises less is found.
#include "profile/audited_steps.h"

#include <gtest/gtest.h>

#include "run/session.h"

namespace plimsoll {
namespace {

const ModelShape kShape{3, 16, 2, 8, 33};

struct Audited {
  Audited(const Config& config, const Plan& plan, const TokenData& data) : session(config, plan, data.files, Watch::audit) {
    session.run_all_phases(data.files);
    instructions = audited_instructions(session.program(), session.audit().phases());
  }
  std::string excess_over(const Plan& plan) const { return excess_over_plan(plan, session.program(), instructions); }

  Session session;
  std::vector<AuditedInstruction> instructions;
};

void expect_no_excess(const Config& config, const Plan& plan, const TokenData& data) {
  const Audited audited(config, plan, data);
  EXPECT_EQ(audited.excess_over(plan), "");
  EXPECT_GT(audited.instructions.size(), plan.timeline.steps.size() / 2);
}

TEST(AuditedSteps, NeverMoreThanPlanned) {
  const TokenData data(kShape.vocab, 400, 90);
  Config config = config_for(kShape, 4);
  for (const std::int64_t micro : {1, 4}) {
    for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
      expect_no_excess(config, plan_with(config, micro, {mode}, 1, data.facts()), data);
    }
  }
  config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
  for (const Residency& residency : kStreamedBlocks) {
    expect_no_excess(config, plan_with(config, 1, {BlockMode::keep}, 1, data.facts(), residency), data);
  }
}

TEST(AuditedSteps, FindsAPlanThatPromisesLess) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = config_for(kShape, 4);
  const Plan plan = plan_with(config, 2, {BlockMode::keep}, 1, data.facts());
  const Audited audited(config, plan, data);
  int found = 0;
  for (std::size_t i = 0; i < plan.lifetimes.buffers.size(); i += 7) {
    Plan less = plan;
    Buffer& buffer = less.lifetimes.buffers[BufferId{i}];
    if (buffer.begin >= buffer.end) continue;
    buffer.bytes -= kAlignment;
    if (!audited.excess_over(less).empty()) ++found;
  }
  EXPECT_GT(found, 5);
}

}  // namespace
}  // namespace plimsoll
