// The passes that answer held-out prompts: their caches live in them alone, and the training is that of the plan without them.
#include "prepare/answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/search/space.h"
#include "prepare/small_training.h"
#include "program/program.h"

namespace plimsoll {
namespace {

const char* const kAsked = "show_samples = 3\n";

struct Planned {
  explicit Planned(const std::string& more = kAsked) : training(more), input(training.input()) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += std::string(1, static_cast<char>('a' + i % 23));
    write_raw(training.folder / "text.txt", text);
    training.config.data.train = training.config.data.validation = training.folder / "text.txt";
    input.data = open_data(training.config, {});
    input.facts = facts_of(training.config, input.data, {});
    PlanSpace space(source_of(training.config, input.facts), input.request, input.machine.machine, catalogue);
    input.budget.memory = budget = space.ceiling() + kMiB * 64;
    plan = std::get<Plan>(space.best(input.budget));
  }
  AskedPrompts asked() { return asked_prompts(training.config, input); }
  PlannedAnswers answers() { return plan_answers(training.config, input, plan, catalogue, asked()); }

  SmallTraining training;
  PlanningInput input;
  OpCatalogue catalogue{{}, {}, kernels_of(round_machine())};
  Plan plan;
  Bytes budget;
};

const PhasePlan& phase_of(const Plan& plan, std::string_view name) {
  return *std::ranges::find(plan.phases, name, &PhasePlan::name);
}

TEST(Answers, AddPhasesAndChangeNoOtherOne) {
  Planned planned;
  const PlannedAnswers answers = planned.answers();
  ASSERT_TRUE(answers.plan) << answers.left_out;
  const Plan& with = *answers.plan;
  for (const char* phase : {"load", "first", "steady", "evaluate", "save"}) {
    EXPECT_EQ(phase_of(with, phase).live, phase_of(planned.plan, phase).live) << phase;
  }
  EXPECT_EQ(with.update_seconds, planned.plan.update_seconds);
  EXPECT_EQ(with.decisions.micro_batch, planned.plan.decisions.micro_batch);
  EXPECT_LT(phase_of(with, "extend").arena, with.arena);
  EXPECT_GT(with.process, planned.plan.process);  // steps, and the heap of prompts
  const StepRange extend = with.timeline.of(phase_of(with, "extend").phase),
                  decode = with.timeline.of(phase_of(with, "decode").phase);
  int caches = 0;
  for (const Buffer& buffer : with.lifetimes.buffers) {
    if (buffer.owner != name(Role::cache)) continue;
    ++caches;
    EXPECT_FALSE(buffer.persistent);
    EXPECT_EQ(buffer.begin, extend.begin);
    EXPECT_EQ(buffer.end, decode.end);
  }
  EXPECT_EQ(caches, 2 * 2);  // keys and values of two layers
  const Program program = lower(with);
  verify(program, with.graph);
  EXPECT_EQ(program.caches.size(), 4);
  const auto is_cache = [&](const Operand& operand) { return with.graph.values[operand.value].role == Role::cache; };
  EXPECT_TRUE(std::ranges::none_of(program.persistent, is_cache));
  EXPECT_TRUE(std::ranges::none_of(program.window, is_cache));
}

TEST(Answers, AreOfThePlanThatARecordGives) {
  Planned planned;
  const Plan with = *planned.answers().plan;
  const PlanRecord record = record_from_json(to_json(record_of(with)));
  EXPECT_EQ(record.decisions.answers.slots, planned.training.config.model.context);
  const PlanningResult again = replay_plan(planned.training.config, planned.input, record);
  EXPECT_EQ(again.plan->plan_hash, with.plan_hash);
  EXPECT_EQ(again.plan->process, with.process);
  EXPECT_EQ(again.prompts.prompts.size(), 3);
  nlohmann::json broken = to_json(record_of(with));
  broken["answers"]["chunk"] = with.decisions.answers.slots + 1;
  EXPECT_THROW(record_from_json(broken), Error);
}

TEST(Answers, TakePromptsFromTheBeginningsOfSamples) {
  Planned planned;
  const HeldOutPrompts prompts = planned.asked().found;
  ASSERT_EQ(prompts.prompts.size(), 3);
  EXPECT_EQ(prompts.prompts[0].text, "abcdefghijklmnop");
  EXPECT_EQ(prompts.prompts[0].expected, "qrstuvwabcdefghij");
  EXPECT_EQ(prompts.prompts[1].tokens.front(), 'j');  // sample 1 begins with the last token of sample 0
  EXPECT_EQ(prompts.prompts[0].tokens.size(), 16);
  const HeldOutPrompts read = prompts_from(to_json(prompts));
  EXPECT_EQ(read.prompts[2].tokens, prompts.prompts[2].tokens);
  EXPECT_EQ(read.prompts[2].expected, prompts.prompts[2].expected);
}

TEST(Answers, AreLeftOutWithAReason) {
  const auto reason = [](const std::string& more, const auto& change) {
    Planned planned(more);
    change(planned);
    const PlannedAnswers answers = planned.answers();
    EXPECT_FALSE(answers.plan);
    return answers.left_out;
  };
  const auto nothing = [](Planned&) {};
  EXPECT_EQ(reason("", nothing), "");
  EXPECT_EQ(reason("show_samples = 0\n", nothing), "");
  EXPECT_NE(reason(kAsked, [](Planned& p) { p.input.budget.memory = p.plan.process; }).find("the process would take"),
            std::string::npos);
  EXPECT_EQ(reason(kAsked, [](Planned& p) { p.input.facts.share = {.rank = 0, .ranks = 2}; }), "several ranks train");
  EXPECT_EQ(reason(kAsked, [](Planned& p) { p.training.config.device = DeviceChoice::cuda; }), "kernels run on a GPU");
  EXPECT_EQ(reason(kAsked, [](Planned& p) { p.input.facts.validation = false; }), "there are no validation data");
  EXPECT_NE(reason(kAsked, [](Planned& p) { p.input.request.floor_only = true; }), "");
  EXPECT_NE(reason(kAsked, [](Planned& p) { p.plan.decisions.residency.parameters = kBeyond; }).find("outside memory"),
            std::string::npos);
}

TEST(Answers, TextsAreCutAtCharacters) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "é";
  const std::string cut = beginning_of(text);
  EXPECT_TRUE(cut.ends_with("é…"));
  EXPECT_LE(std::ssize(cut), kMostShownText + 3);
  EXPECT_EQ(beginning_of("short"), "short");
}

}  // namespace
}  // namespace plimsoll
