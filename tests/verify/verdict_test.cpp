// Verdicts, and the ends of trials, as values.
#include "verify/verdict.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/scratch_folder.h"
#include "verify/trial.h"

namespace plimsoll::verification {
namespace {

Verdict verdict_of(std::vector<Check> checks) {
  return {.samples = 4,
          .context = 16,
          .compute = "bf16",
          .parameters = "fp32",
          .gradients = "fp32",
          .optimizer_state = "8bit",
          .checks = std::move(checks)};
}
const Check kRan{.subject = "bits", .what = "all plans", .found = "equal", .limit = "equal", .command = "plimsoll train"};

Check with(Outcome outcome) {
  Check check = kRan;
  check.outcome = outcome;
  return check;
}

TEST(Verdict, PassesIfNothingFailedAndSomethingRan) {
  Check no_run = kRan;
  no_run.command.clear();
  EXPECT_TRUE(verdict_of({kRan}).passed());
  EXPECT_TRUE(verdict_of({with(Outcome::skipped), kRan}).passed());
  EXPECT_FALSE(verdict_of({kRan, with(Outcome::failed)}).passed());
  EXPECT_FALSE(verdict_of({}).passed());
  EXPECT_FALSE(verdict_of({with(Outcome::skipped)}).passed());
  EXPECT_FALSE(verdict_of({no_run}).passed()) << "a check without a training of its own";
}

TEST(Verdict, IsAnObjectWithItsChecksInOrder) {
  const nlohmann::json object = verdict_of({kRan, with(Outcome::failed), with(Outcome::skipped)}).to_json();
  EXPECT_EQ(object.at("schema"), "plimsoll.verify/1");
  EXPECT_EQ(object.at("passed"), false);
  EXPECT_EQ(object.at("samples"), 4);
  EXPECT_EQ(object.at("context"), 16);
  EXPECT_EQ(object.at("precision"),
            (nlohmann::json{{"compute", "bf16"}, {"storage", "fp32"}, {"accumulation", "fp32"}, {"optimizer_state", "8bit"}}));
  std::vector<std::string> outcomes;
  for (const nlohmann::json& row : object.at("checks")) outcomes.push_back(row.at("outcome"));
  EXPECT_EQ(outcomes, (std::vector<std::string>{"passed", "failed", "skipped"}));
  EXPECT_EQ(object.at("checks").front().at("subject"), "bits");
  EXPECT_EQ(object.at("checks").front().at("command"), "plimsoll train");
}

TEST(Verdict, NamesTheGroupsOfBatchNormalisation) {
  Verdict verdict = verdict_of({kRan});
  EXPECT_EQ(verdict.norm(), "");
  EXPECT_FALSE(verdict.to_json().contains("norm"));
  verdict.stat_batch = 4;
  EXPECT_EQ(verdict.to_json().at("norm"), "ghost BN(4)");
  EXPECT_EQ(verdict.to_json().at("stat_batch"), 4);
}

Trial ended(int exit_code, std::string said = {}) { return {.exit_code = exit_code, .said = std::move(said)}; }
Trial ended(ExitCode exit, std::string said = {}) { return ended(static_cast<int>(exit), std::move(said)); }

TEST(Trial, TellsHowItEnded) {
  EXPECT_EQ(ended(ExitCode::ok).end(), Trial::End::ran);
  EXPECT_EQ(ended(ExitCode::does_not_fit, "E-PLAN-FIT  [plan] short").end(), Trial::End::no_room);
  EXPECT_EQ(ended(ExitCode::configuration).end(), Trial::End::refused);
  EXPECT_EQ(ended(ExitCode::diverged).end(), Trial::End::diverged);
  EXPECT_EQ(ended(ExitCode::data).end(), Trial::End::broken);
  EXPECT_EQ(ended(ExitCode::interrupted).end(), Trial::End::broken);
  EXPECT_EQ(ended(ExitCode::internal).end(), Trial::End::failed);
}

TEST(Trial, ASignalFromOutsideBreaksItAndACrashIsAFailure) {
  constexpr int kBySignal = 128;
  for (const int signal : {SIGKILL, SIGTERM, SIGHUP}) EXPECT_EQ(ended(kBySignal + signal).end(), Trial::End::broken);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE}) EXPECT_EQ(ended(kBySignal + signal).end(), Trial::End::failed);
}

TEST(Trial, DoesNotFitIfATierHasNoRoom) {
  EXPECT_TRUE(ended(ExitCode::ok).fits());
  EXPECT_TRUE(ended(ExitCode::data, "E-DATA-SHORT  [x] short").fits());
  EXPECT_FALSE(ended(ExitCode::does_not_fit, "E-PLAN-FIT  [plan] short").fits());
  for (const char* code : {"E-DISK-SIZE", "E-DISK-FULL", "E-HOST-SIZE"}) {
    EXPECT_FALSE(ended(ExitCode::data, std::string(code) + "  [disk] full").fits()) << code;
  }
  const Trial child = ended(ExitCode::does_not_fit, "E-CHILD  [plan] a child ended early");
  EXPECT_TRUE(child.fits()) << "it says nothing about the budget";
  EXPECT_EQ(child.end(), Trial::End::broken);
}

TEST(Trial, ItsFilesCanBeRemoved) {
  const ScratchFolder folder;
  Trial trial;
  trial.folder = folder / "trial";
  std::filesystem::create_directories(trial.weights());
  write_raw(trial.checkpoint(), "numbers");
  Trials::forget(trial);
  EXPECT_FALSE(std::filesystem::exists(trial.folder));
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace plimsoll::verification
