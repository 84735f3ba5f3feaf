#include "cli/spelling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/advice.h"

namespace plimsoll {
namespace {

using Words = std::vector<std::string>;

TEST(Spelling, KeysHaveTheirOptions) {
  EXPECT_EQ(arguments_of({"memory.budget", "2GiB"}), (Words{"--memory", "2GiB"}));
  EXPECT_EQ(arguments_of({"memory.disk", "a folder:1GiB"}), (Words{"--disk", "a folder:1GiB"}));
  EXPECT_EQ(arguments_of({"machine.unverified", "true"}), Words{"--unverified"});
  EXPECT_EQ(arguments_of({"machine.unverified", "false"}), (Words{"--set", "machine.unverified=false"}));
  EXPECT_EQ(arguments_of({"seed", 5}), (Words{"--set", "seed=5"}));
  EXPECT_EQ(arguments_of({"train.updates", 5}), (Words{"--set", "train.updates=5"}));
  EXPECT_EQ(arguments_of({"command.run", "DIR"}), (Words{"--run", "DIR"}));
  EXPECT_EQ(arguments_of({"command.resume"}), Words{"--resume"});
}

// An option of a budget takes no empty text, and an assignment without a key stays as it was typed.
TEST(Spelling, OtherTextsAreSet) {
  EXPECT_EQ(arguments_of({"memory.disk", ""}), (Words{"--set", "memory.disk="}));
  EXPECT_EQ(arguments_of({"", "no assignment"}), (Words{"--set", "no assignment"}));
}

TEST(Spelling, RemediesCanBePasted) {
  EXPECT_EQ(text_of(Remedy("nvidia-smi")), "nvidia-smi");
  EXPECT_EQ(text_of(Remedy(Change("model.freeze", "[]"))), "--set 'model.freeze=[]'");
  EXPECT_EQ(text_of(Remedy(Change("data.format", "u32"), "for wide tokens")), "--set data.format=u32  # for wide tokens");
  EXPECT_EQ(text_of(Remedy::of_changes({{"train.micro_batch", "auto"}, {"memory.budget", 5}})),
            "--set train.micro_batch=auto --memory 5");
  EXPECT_EQ(text_of(Remedy::of_command("train CONFIG", {{"command.run", "a run"}, {"command.resume"}})),
            "plimsoll train CONFIG --run 'a run' --resume");
}

TEST(Spelling, AdviceTakesTheConfigurationOfTheCommand) {
  const ConfigArguments config{"a b.toml", {{"seed", 2}, {"memory.budget", "1GiB"}, {"machine.device", "sim"}}};
  Error error = config_error("E-TEST", "here", "what", "",
                             {Remedy::of_command("plan CONFIG"), Remedy::of_command("machine CONFIG"),
                              Remedy::of_command("train CONFIG", {{"command.run", "DIR"}, {"command.resume"}})});
  complete_advice(error, config);
  name_run(error, "my run");
  EXPECT_EQ(text_of(error.remedies.at(0)), "plimsoll plan 'a b.toml' --device sim --set seed=2 --memory 1GiB");
  EXPECT_EQ(text_of(error.remedies.at(1)), "plimsoll machine 'a b.toml' --device sim --set seed=2");
  EXPECT_EQ(text_of(error.remedies.at(2)), "plimsoll train 'a b.toml' --run 'my run' --resume");
}

TEST(Spelling, PlansGetArguments) {
  nlohmann::json plan = nlohmann::json::parse(
      R"({"levers": [{"name": "less", "changes": [["plan.recompute", "all"], ["memory.budget", "1GiB"]]}], "infeasible": null})");
  spell_changes(plan);
  EXPECT_EQ(plan.at("levers").at(0),
            (nlohmann::json{{"name", "less"}, {"arguments", {"--set", "plan.recompute=all", "--memory", "1GiB"}}}));
}

}  // namespace
}  // namespace plimsoll
