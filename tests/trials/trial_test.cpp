// Trials are processes that are followed, stopped and read. The programs are shell scripts that behave like trainings.
#include "trials/trial.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "config/config.h"
#include "device/process_memory.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "settings/setting.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The run folder of a trial is the last word of its command.
constexpr const char* kBegin = "#!/bin/sh\nfor run; do :; done\nmkdir -p \"$run\"\n";
constexpr const char* kWriteLines =
    "for i in 1 2 3; do echo "
    "'{\"update\":'$i',\"loss\":'$i'.5,\"grad_norm\":2,\"units\":10,\"seconds\":0.5}' >> \"$run/metrics.jsonl\"; done\n";

class TrialTest : public testing::Test {
 protected:
  TrialPlace program(const std::string& body, double patience = 30) {
    const fs::path script = folder_.path() / "program";
    write_raw(script, kBegin + body);
    ::chmod(script.c_str(), 0700);
    return {folder_.path(), "tune", script, patience};
  }
  Trials trials(const std::string& body, double patience = 30) {
    return Trials(Config(), program(body, patience), [&](const std::string& name) { told_.push_back(name); });
  }

  ScratchFolder folder_{fs::temp_directory_path()};
  std::vector<std::string> told_;
};

TEST_F(TrialTest, LinesOfARunAreItsResult) {
  Trials trials = this->trials(std::string(kWriteLines) +
                               "echo '{\"update\":3,\"loss\":9.25,\"units\":7,\"seconds\":1}' > \"$run/eval.jsonl\"\n");
  TrialRequest request{"one", {{"train.micro_batch", 3}}, {"--device", "cpu"}};
  request.updates = 3;
  const Trial trial = trials.run(request);
  EXPECT_EQ(trial.end(), Trial::End::ran);
  EXPECT_EQ(trial.asked, ProcessEnd::Asked::no);
  ASSERT_EQ(trial.updates.size(), 3u);
  EXPECT_EQ(trial.updates.back().loss, 3.5);
  ASSERT_EQ(trial.evaluations.size(), 1u);
  EXPECT_EQ(trial.evaluations.front().loss, 9.25);
  EXPECT_EQ(trial.command,
            fmt::format("plimsoll train {0}/config.toml --set train.micro_batch=3 --device cpu --updates 3 --run {0}/one",
                        folder_.path().string()));
  EXPECT_EQ(told_, std::vector<std::string>{"one"});
  EXPECT_EQ(trial.folder, folder_.path() / "one");
}

TEST_F(TrialTest, NewTrialReplacesItsFolderAndAResumedOneKeepsIt) {
  Trials trials = this->trials(kWriteLines);
  EXPECT_EQ(trials.run({"one"}).updates.size(), 3u);
  write_raw(folder_.path() / "one" / "kept", "");
  trials.run({"one", {}, {"--resume"}});
  EXPECT_TRUE(fs::exists(folder_.path() / "one" / "kept"));
  trials.run({"one"});
  EXPECT_FALSE(fs::exists(folder_.path() / "one" / "kept"));
}

TEST_F(TrialTest, RefusalsAndFailuresAreResults) {
  struct Case {
    const char* body;
    Trial::End end;
    const char* code;
  };
  for (const Case& each : {Case{"echo 'E-DIVERGED  [update 7] nan' >&2; exit 4", Trial::End::diverged, "E-DIVERGED"},
                           Case{"echo 'E-CONFIG-RANGE  [x] y' >&2; exit 2", Trial::End::refused, "E-CONFIG-RANGE"},
                           Case{"echo 'E-IO-READ  [x] y' >&2; exit 5", Trial::End::broken, "E-IO-READ"},
                           Case{"echo 'E-DISK-FULL  [x] y' >&2; exit 5", Trial::End::no_room, "E-DISK-FULL"},
                           Case{"echo 'E-CHILD  [x] y' >&2; exit 3", Trial::End::broken, "E-CHILD"},
                           Case{"echo words >&2; exit 1", Trial::End::failed, ""}, Case{"kill -SEGV $$", Trial::End::failed, ""},
                           Case{"kill -KILL $$", Trial::End::broken, ""}}) {
    const Trial trial = trials(each.body).run({"one"});
    EXPECT_EQ(trial.end(), each.end) << each.body;
    EXPECT_EQ(trial.code(), each.code);
  }
}

TEST_F(TrialTest, ShortfallOfAPlanThatDoesNotFit) {
  const Trial trial = trials("echo '{\"infeasible\":{\"short_bytes\":4711}}'; echo 'E-PLAN-FIT  does not fit' >&2; exit 3")
                          .run({"one", {}, {"--json"}});
  EXPECT_EQ(trial.end(), Trial::End::no_room);
  EXPECT_EQ(trial.shortfall, Bytes{4711});
  EXPECT_EQ(trials("echo '{\"infeasible\":[]}'; exit 3").run({"one"}).shortfall, std::nullopt);
}

TEST_F(TrialTest, LinesAreFollowedUntilEnough) {
  Trials trials = this->trials(std::string(kWriteLines) + "trap 'exit 6' TERM\nwhile :; do sleep 0.05; done\n");
  TrialRequest request{"one"};
  std::vector<double> seen;
  request.follow = [&](const Metrics& metrics) {
    seen.push_back(metrics.loss);
    return metrics.update == 3;
  };
  const Trial trial = trials.run(request);
  EXPECT_EQ(seen, (std::vector<double>{1.5, 2.5, 3.5}));
  EXPECT_EQ(trial.end(), Trial::End::stopped);
  EXPECT_EQ(trial.asked, ProcessEnd::Asked::by_look);
  EXPECT_EQ(trial.exit_code, 6);
  EXPECT_FALSE(trial.forced);
  EXPECT_EQ(trial.updates.size(), 3u);
}

TEST_F(TrialTest, TimeLimitStopsAndPatienceForces) {
  Trials trials = this->trials("trap '' TERM\nwhile :; do sleep 0.05; done\n", 0.3);
  TrialRequest request{"one"};
  request.most_seconds = 0.2;
  const Trial trial = trials.run(request);
  EXPECT_EQ(trial.asked, ProcessEnd::Asked::by_time);
  EXPECT_TRUE(trial.forced);
  EXPECT_EQ(trial.exit_code, 128 + SIGKILL);
  EXPECT_EQ(trial.end(), Trial::End::stopped);
  EXPECT_GE(trial.seconds, 0.5);
}

TEST_F(TrialTest, SignalEndsTheTrialAndAllLaterOnes) {
  Trials trials = this->trials("trap 'exit 6' TERM\ntouch \"$run/begun\"\nwhile :; do sleep 0.05; done\n");
  std::thread sender([&] {
    while (!fs::exists(folder_.path() / "one" / "begun")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_ERROR(trials.run({"one"}), "E-INTERRUPTED", "[tune]");
  sender.join();
  EXPECT_ERROR(trials.run({"two"}), "E-INTERRUPTED", "it was stopped");
  EXPECT_FALSE(fs::exists(folder_.path() / "two"));
}

TEST_F(TrialTest, ActionsOfSignalsComeBack) {
  struct sigaction before {
  }, during{}, after{};
  sigaction(SIGTERM, nullptr, &before);
  {
    const Trials taken = trials("");
    sigaction(SIGTERM, nullptr, &during);
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_NE(during.sa_handler, before.sa_handler);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

// A child of this test begins a trial and is killed. The trial must not outlive it.
TEST_F(TrialTest, TrialEndsWithItsParent) {
  const TrialPlace place =
      program("trap 'touch \"$run/ended\"; exit 6' TERM\ntouch \"$run/begun\"\nwhile :; do sleep 0.05; done\n");
  const pid_t parent = ::fork();
  if (parent == 0) {
    Trials(Config(), place, [](const std::string&) {}).run({"one"});
    ::_exit(0);
  }
  const auto appears = [&](const char* name) {
    for (int i = 0; i < 2000 && !fs::exists(folder_.path() / "one" / name); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return fs::exists(folder_.path() / "one" / name);
  };
  ASSERT_TRUE(appears("begun"));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(appears("ended"));
}

TEST_F(TrialTest, BudgetIsSharedWithThisProcess) {
  const Bytes budget = kGiB, own = counted_resident();
  TrialRequest request{"one"};
  request.shared = budget;
  const Trial trial = trials("").run(request);
  const std::size_t at = trial.command.find("--memory ");
  ASSERT_NE(at, std::string::npos);
  const Bytes given{std::stoll(trial.command.substr(at + 9))};
  EXPECT_LE(given + own, budget);
  EXPECT_GE(given + own * 2 + kMiB * 8, budget);
  EXPECT_EQ(left_by_this_process(Bytes{1}), Bytes{0});
}

TEST_F(TrialTest, ProgramThatCannotStart) {
  TrialPlace place{folder_.path(), "tune", folder_.path() / "nothing"};
  Trials trials(Config(), place, [](const std::string&) {});
  EXPECT_ERROR(trials.run({"one"}), "E-CHILD", "does not start");
}

// Trainings of real configurations are followed by tests/cli/verify.py, through the same object.
TEST_F(TrialTest, ConfigurationOfAllTrialsIsWrittenOnce) {
  const Trials made = trials("");
  EXPECT_FALSE(read_settings(folder_.path() / "config.toml").empty());
}

}  // namespace
}  // namespace plimsoll
