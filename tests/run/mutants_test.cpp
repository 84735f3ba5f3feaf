// Plans with one planted fault. The audit, verify, the judge or the `check` device must catch each, depending on the fault.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "run/session.h"

namespace plimsoll {
namespace {

const ModelShape kShape{2, 32, 2, 16, 101};

struct Original {
  Config config = config_for(kShape, 4);
  TokenData data{kShape.vocab, 300, 60};
  Plan plan;

  explicit Original(std::int64_t micro, BlockMode mode = BlockMode::cheap) {
    plan = plan_with(config, micro, {mode, BlockMode::recompute}, 2);
  }
};

// The phases' figures after a change of lifetimes or offsets, as a planner with that fault would print them.
void recount(Plan& plan) {
  plan.arena = {};
  for (PhasePlan& phase : plan.phases) {
    const StepRange range = plan.timeline.of(phase.phase);
    phase.live = live_profile(plan.lifetimes, plan.timeline, phase.phase).peak;
    phase.arena = {};
    for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
      const Buffer& buffer = plan.lifetimes.buffers[BufferId{i}];
      const int begin = phase.phase == Phase::first ? buffer.first_begin : buffer.begin;
      if (begin < range.end && range.begin < buffer.end) phase.arena = std::max(phase.arena, plan.offsets[i] + buffer.bytes);
    }
    plan.arena = std::max(plan.arena, phase.arena);
  }
}

std::string verified(const Plan& plan, const Program& program) {
  try {
    verify(program, plan.graph);
    return {};
  } catch (const Error& error) {
    return error.message;
  }
}

// Two updates with kernels under the audit: "" or what it says.
std::string audited(const Original& original, const Plan& plan) {
  try {
    Session session(original.config, plan, original.data.files, Watch::audit);
    session.run_all_phases(original.data.files);
    return difference(plan, session.audit().phases());
  } catch (const Error& error) {
    return error.message;
  }
}

// The judge, asked about the lifetimes of the sound plan.
bool judged_sound(const Plan& sound, const std::vector<Bytes>& offsets) {
  const auto& buffers = sound.lifetimes.buffers;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Buffer& a = buffers[BufferId{i}];
    for (std::size_t j = 0; j < i; ++j) {
      const Buffer& b = buffers[BufferId{j}];
      const bool together = a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
      if (together && offsets[i] < offsets[j] + b.bytes && offsets[j] < offsets[i] + a.bytes) return false;
    }
  }
  return true;
}

// Who caught the mutants of one fault.
struct Tally {
  int mutants = 0;
  std::map<std::string, int> by;
  std::vector<std::string> missed;

  // `catcher`: "" where nobody saw it.
  void count(const std::string& catcher, std::string mutant) {
    ++mutants;
    if (catcher.empty())
      missed.push_back(std::move(mutant));
    else
      ++by[catcher];
  }
  // Asks verify, then the `check` device and the audit's ranges.
  void count_replayed(const Plan& plan, std::string mutant) {
    const Program program = lower(plan);
    std::string catcher;
    if (!verified(plan, program).empty())
      catcher = "verify";
    else if (!replay(plan, program).empty())
      catcher = "check and audit";
    count(catcher, std::move(mutant));
  }
  void expect_all_caught(const char* fault, int more_than) const {
    printf("%s: %d mutants", fault, mutants);
    for (const auto& [name, count] : by) printf(", %d by %s", count, name.c_str());
    printf(", %zu missed\n", missed.size());
    EXPECT_GT(mutants, more_than);
    EXPECT_EQ(missed, std::vector<std::string>());
  }
};

// One life at a time ends `steps` later than it should, and nothing takes or loses the bytes. If that changes a printed load, the
// replay must detect it.
void expect_seen_in_the_load(int steps, const std::function<bool(const Buffer&)>& may_change) {
  const Original original(4);
  Tally tally;
  for (std::size_t i = 0; i < original.plan.offsets.size(); ++i) {
    Plan mutant = original.plan;
    Buffer& buffer = mutant.lifetimes.buffers[BufferId{i}];
    if (buffer.persistent || !may_change(buffer)) continue;
    buffer.end += steps;
    recount(mutant);
    if (std::ranges::equal(mutant.phases, original.plan.phases, {}, &PhasePlan::live, &PhasePlan::live)) continue;
    tally.count(replay(mutant, lower(mutant)).empty() ? "" : "the replay", buffer.owner + " " + std::to_string(i));
  }
  tally.expect_all_caught("at a peak", 0);
}

TEST(Mutants, TheOriginalsAreSound) {
  for (const std::int64_t micro : {1, 4}) {
    const Original original(micro);
    EXPECT_EQ(audited(original, original.plan), "");
    EXPECT_TRUE(judged_sound(original.plan, original.plan.offsets));
    Plan again = original.plan;
    recount(again);
    EXPECT_EQ(again.arena, original.plan.arena);
    EXPECT_EQ(difference(original.plan,
                         [&] {
                           std::vector<PhaseAudit> phases;
                           for (const PhasePlan& phase : again.phases)
                             phases.push_back({phase.phase, "", phase.arena, phase.live});
                           return phases;
                         }()),
              "");
  }
}

// A planner that ends a life one step early gives the bytes away in the step that still reads them. The two buffers lie on top of
// each other above everything else, so that the fault is the only one.
TEST(Mutants, ALifeOneStepShorter) {
  for (const std::int64_t micro : {1, 4}) {
    const Original original(micro);
    Tally tally;
    const auto& buffers = original.plan.lifetimes.buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& victim = buffers[BufferId{i}];
      if (victim.persistent || victim.end <= victim.begin + 1) continue;
      for (std::size_t j = 0; j < buffers.size(); ++j) {
        const Buffer& thief = buffers[BufferId{j}];
        if (thief.persistent || thief.begin != victim.end - 1 || thief.end <= thief.begin) continue;
        Plan mutant = original.plan;
        --mutant.lifetimes.buffers[BufferId{i}].end;
        mutant.offsets[i] = mutant.offsets[j] = original.plan.arena;
        recount(mutant);
        mutant.arena = std::max(mutant.arena, original.plan.arena + std::max(victim.bytes, thief.bytes));
        tally.count_replayed(mutant, victim.owner + " " + std::to_string(i) + " under " + thief.owner + " " + std::to_string(j));
        EXPECT_FALSE(judged_sound(original.plan, mutant.offsets));
      }
    }
    tally.expect_all_caught("life one shorter", 20);
  }
}

// The same fault without another buffer in the bytes: the printed load is too small.
TEST(Mutants, ALifeShorterAtThePeakIsSeenInTheLoad) {
  expect_seen_in_the_load(-1, [](const Buffer& buffer) { return buffer.end > buffer.begin + 1; });
}

TEST(Mutants, AValueHeldTooLongAtThePeakIsSeenInTheLoad) {
  expect_seen_in_the_load(1, [](const Buffer& buffer) { return buffer.end > buffer.begin && buffer.owner != "kernel scratch"; });
}

// Moved down by one line, a buffer overlaps its lower neighbour while both live.
TEST(Mutants, AnOffsetOneUnitLower) {
  for (const std::int64_t micro : {1, 4}) {
    const Original original(micro);
    Tally tally;
    for (std::size_t i = 0; i < original.plan.offsets.size(); ++i) {
      const Buffer& buffer = original.plan.lifetimes.buffers[BufferId{i}];
      if (original.plan.offsets[i] < kAlignment || buffer.end <= buffer.begin) continue;
      Plan mutant = original.plan;
      mutant.offsets[i] -= kAlignment;
      if (judged_sound(original.plan, mutant.offsets)) continue;  // free bytes below: another plan, not a wrong one
      tally.count_replayed(mutant, buffer.owner + " " + std::to_string(i));
    }
    tally.expect_all_caught("offset one unit lower", 100);
  }
}

// The kernels write to the addresses of the program, so the audit's height moves with the highest buffer.
TEST(Mutants, TheHighestBufferOneUnitLowerOrHigherIsSeenInTheHeight) {
  const Original original(4, BlockMode::keep);
  for (const std::int64_t step : {-kAlignment.n, kAlignment.n}) {
    Plan mutant = original.plan;
    for (std::size_t i = 0; i < mutant.offsets.size(); ++i) {
      const Buffer& buffer = mutant.lifetimes.buffers[BufferId{i}];
      if (buffer.end > buffer.begin && mutant.offsets[i] + buffer.bytes == original.plan.arena) mutant.offsets[i] += Bytes{step};
    }
    mutant.arena = std::max(original.plan.arena, original.plan.arena + Bytes{step});
    EXPECT_NE(audited(original, mutant), "") << step;
  }
}

// The kernel catches the fault when it is bound, or the sentinel after the scratch does.
TEST(Mutants, AScratch64Smaller) {
  const Original original(4, BlockMode::keep);
  Tally tally;
  for (std::size_t step = 0; step < original.plan.kernels.size(); ++step) {
    const BufferId scratch = original.plan.lifetimes.scratch[step];
    if (!scratch.valid()) continue;
    Plan mutant = original.plan;
    for (KernelChoice* choice : {&mutant.kernels[step].add, &mutant.kernels[step].write})
      choice->scratch -= std::min(choice->scratch, Bytes{64});
    Buffer& buffer = mutant.lifetimes.buffers[scratch];
    buffer.bytes = align_up(std::max(mutant.kernels[step].add.scratch, mutant.kernels[step].write.scratch), kAlignment);
    recount(mutant);
    const std::string said = audited(original, mutant);
    const Node& node = mutant.graph.nodes[mutant.timeline.steps[step].node];
    const char* catcher = said.find("scratch") == std::string::npos ? "audit" : "executor or sentinel";
    tally.count(said.empty() ? "" : catcher,
                std::string(node.op->name) + " " + node.line.text() + " of " + std::to_string(buffer.bytes.n));
  }
  tally.expect_all_caught("scratch 64 smaller", 0);
}

// State that shares bytes with anything else is lost between steps.
TEST(Mutants, StateThatIsGivenAwayBetweenUpdates) {
  const Original original(1);
  const auto& buffers = original.plan.lifetimes.buffers;
  std::size_t thief = 0;
  Bytes largest;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[BufferId{i}];
    if (!buffer.persistent && buffer.value.valid() && original.plan.graph.values[buffer.value].role == Role::activation &&
        buffer.bytes > largest) {
      thief = i;
      largest = buffer.bytes;
    }
  }
  int mutants = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[BufferId{i}];
    if (!buffer.persistent || buffer.owner == "staging" || buffer.owner == "output") continue;
    Plan mutant = original.plan;
    mutant.offsets[i] = mutant.offsets[thief];
    ++mutants;
    const Program program = lower(mutant);
    EXPECT_FALSE(verified(mutant, program).empty() && replay(mutant, program).empty()) << buffer.owner;
  }
  EXPECT_GT(mutants, 20);
}

}  // namespace
}  // namespace plimsoll
