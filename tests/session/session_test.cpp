// A session sends each event to all consumers in one order, and saves if one of them cannot go on.
#include "session/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/visit.h"
#include "device/machine_facts.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "measure/simulated_machine.h"
#include "records/line_reader.h"
#include "records/run_folder.h"
#include "session/run_lines.h"
#include "session/run_record.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

constexpr const char* kConfig = R"(
seed = 3
[model]
kind = "gpt2"
layers = 1
width = 32
heads = 2
context = 16
vocab = 256
[data]
train = "train.txt"
validation = "train.txt"
format = "bytes"
[train]
effective_batch = 4
micro_batch = 2
updates = 4
evaluate_every = 2
evaluate_samples = 4
save_every = 3
[optimizer]
name = "adamw"
learning_rate = 1e-3
[schedule]
name = "constant"
[memory]
budget = "2GiB"
[machine]
threads = 1
)";

// The events that a consumer saw, one text each: "updated 2".
struct Spy : Consumer {
  std::vector<std::string> seen;
  std::vector<double> losses;
  std::int64_t refuses = 0;  // an update that it cannot take

  void see(const Event& event) override {
    const auto add = [&](const std::string& word) { seen.push_back(word); };
    const auto with = [&](const std::string& word, std::int64_t number) { add(word + " " + std::to_string(number)); };
    match(
        event, [](const Said&) {}, [&](const Planned&) { add("planned"); }, [&](const Begins&) { add("begins"); },
        [&](const Continues& continues) { with("continues", continues.updates); },
        [&](const Begun& begun) { with("begun", begun.reached.updates); }, [&](const Placed&) { add("placed"); },
        [&](const Loaded&) { add("loaded"); }, [&](const MadeWrong&) { add("wrong"); },
        [&](const LoopBegins& begins) { with("loop", begins.updates); },
        [&](const Updated& updated) {
          if (updated.metrics.update == refuses) throw data_error("E-IO-WRITE", "spy", "it cannot be written");
          EXPECT_EQ(updated.progress.updates, updated.metrics.update);
          with("updated", updated.metrics.update);
          losses.push_back(updated.metrics.loss);
        },
        [&](const Overflowed&) { add("overflowed"); }, [&](const Warned&) { add("warned"); },
        [&](const Unstable&) { add("unstable"); }, [&](const Diverging&) { add("diverging"); },
        [&](const ValidationRises& rises) { with("rises", rises.update); }, [](const Evaluating&) {},
        [&](const Evaluated& evaluated) { with("evaluated", evaluated.evaluation.update); },
        [&](const Answered& answered) {
          EXPECT_EQ(answered.answers.size(), 2);
          with("answered", answered.answers.front().update);
        },
        [&](const BestSaved& saved) { with("best", saved.best.update); },
        [&](const RateFell& fell) { with("rate fell", fell.update); },
        [&](const NotSaved& not_saved) { with("not saved", not_saved.update); }, [&](const Saving&) { add("saving"); },
        [&](const Saved& saved) { with("saved", saved.updates); }, [&](const LoopEnded&) { add("loop ended"); },
        [&](const Finished& finished) { add(finished.stopped_by.empty() ? "finished" : "stopped"); },
        [&](const Ended&) { add("ended"); },
        [&](const Failed& failed) { with("failed " + failed.error.code, failed.reached.updates); });
  }
};

// This computer without measurements, with room for the memory of a test binary outside its arena.
MachineRecord machine() {
  const MachineFacts facts = machine_facts(1);
  MachineRecord record = simulated_machine(1);
  record.machine.instruction_set = facts.instruction_set;
  record.machine.libraries = facts.libraries;
  record.machine.tiers = {{TierKind::compute, "ram", kGiB * 4}};
  record.machine.links.clear();
  record.machine.reserve.code = kGiB;
  record.machine.hash = machine_hash(record.machine);
  return record;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    write_raw(folder_ / "train.txt", text);
    write_raw(folder_ / "config.toml", kConfig);
    settings_ = {folder_ / "config.toml", read_settings(folder_ / "config.toml"), {}};
    config_ = load_config(settings_);
  }

  SessionRequest request(bool resumes = false) {
    SessionRequest request;
    request.settings = settings_;
    request.prepare.machine = machine();
    request.prepare.cache = folder_ / "cache";
    request.updates = config_.train.updates;
    request.resumes = resumes;
    request.stopped_by = [this] { return stopped_by_; };
    return request;
  }

  void run(RunFolder& folder, const SessionRequest& request, std::vector<Consumer*> consumers) {
    Session session(config_, request, folder, std::move(consumers));
    EXPECT_FALSE(session.run().has_value()) << "the plan does not fit";
  }

  ScratchFolder folder_;
  RunSettings settings_;
  Config config_;
  std::string stopped_by_;
};

const std::vector<std::string> kWhole{"planned", "begins",     "continues 0", "begun 0",     "placed",  "loaded",
                                      "loop 4",  "updated 1",  "updated 2",   "evaluated 2", "best 2",  "updated 3",
                                      "saving",  "saved 3",    "updated 4",   "saving",      "saved 4", "evaluated 4",
                                      "best 4",  "loop ended", "finished",    "ended"};

TEST_F(SessionTest, TwoConsumersSeeTheSame) {
  RunFolder folder = RunFolder::open(folder_ / "run", false);
  RunLines lines(folder);
  RunRecord record(folder);
  Spy first, second;
  run(folder, request(), {&first, &lines, &record, &second});
  EXPECT_EQ(first.seen, kWhole);
  EXPECT_EQ(second.seen, kWhole);
  EXPECT_EQ(first.losses, second.losses);

  // The files are consumers like any other.
  std::vector<double> written;
  folder.read_metrics([&](const Metrics& metrics) { written.push_back(metrics.loss); });
  EXPECT_EQ(written, first.losses);
  EXPECT_EQ(record.report().status, "done");
  EXPECT_EQ(run_status(folder.path()), "done");
}

TEST_F(SessionTest, AnswersPromptsAtEachEvaluation) {
  Spy without, with;
  {
    RunFolder folder = RunFolder::open(folder_ / "without", false);
    run(folder, request(), {&without});
  }
  config_.train.show_samples = 2;
  RunFolder folder = RunFolder::open(folder_ / "with", false);
  RunLines lines(folder);
  SessionRequest audited = request();
  audited.audit = true;
  run(folder, audited, {&with, &lines});
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(std::erase_if(with.seen, [](const std::string& event) { return event.starts_with("answered"); }), 2U);
  EXPECT_EQ(with.seen, without.seen);
  std::vector<std::int64_t> updates;
  read_answers(folder.path(), [&](const Answer& answer) { updates.push_back(answer.update); });
  EXPECT_EQ(updates, (std::vector<std::int64_t>{2, 2, 4, 4}));
}

// A signal before or during the answers of an evaluation leaves its line without them.
TEST_F(SessionTest, AResumedRunAnswersWhatASignalCutOff) {
  config_.train.show_samples = 2;
  const auto answers_in = [](const RunFolder& folder) {
    std::vector<std::pair<std::int64_t, std::string>> answers;
    read_answers(folder.path(), [&](const Answer& answer) { answers.emplace_back(answer.update, answer.answer); });
    return answers;
  };
  RunFolder whole = RunFolder::open(folder_ / "whole", false);
  {
    RunLines lines(whole);
    run(whole, request(), {&lines});
  }
  ASSERT_EQ(answers_in(whole).size(), 4U);
  for (const int passes : {0, 1, 3}) {
    const std::string name = "run" + std::to_string(passes);
    // The signal comes in the evaluation of update 2, so many questions later.
    struct Evaluations : Consumer {
      void see(const Event& event) override { began = began || std::holds_alternative<Evaluating>(event); }
      bool began = false;
    } evaluations;
    SessionRequest stopping = request();
    int asked = 0;
    stopping.stopped_by = [&] { return evaluations.began && asked++ >= passes ? "SIGTERM" : ""; };
    {
      RunFolder folder = RunFolder::open(folder_ / name, false);
      RunLines lines(folder);
      RunRecord record(folder);
      run(folder, stopping, {&lines, &record, &evaluations});
      EXPECT_EQ(run_status(folder.path()), "interrupted");
      EXPECT_TRUE(answers_in(folder).empty());
    }
    RunFolder folder = RunFolder::open(folder_ / name, true);
    RunLines lines(folder);
    RunRecord record(folder);
    Spy resumed;
    run(folder, request(/*resumes=*/true), {&lines, &record, &resumed});
    EXPECT_EQ(std::ranges::count(resumed.seen, "answered 2"), 1);
    EXPECT_EQ(std::ranges::count(resumed.seen, "evaluated 2"), 0) << "the run has its line";
    EXPECT_EQ(answers_in(folder), answers_in(whole));
    std::vector<std::int64_t> evaluated;
    read_evaluations(folder.path(), [&](const Evaluation& evaluation) { evaluated.push_back(evaluation.update); });
    EXPECT_EQ(evaluated, (std::vector<std::int64_t>{2, 4}));
  }
}

TEST_F(SessionTest, NobodyNeedsToListen) {
  RunFolder folder = RunFolder::open(folder_ / "run", false);
  run(folder, request(), {});
  EXPECT_EQ(read_progress(folder.checkpoint()).updates, 4);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run.json"));
}

TEST_F(SessionTest, SavesBeforeItEndsForAConsumer) {
  RunFolder folder = RunFolder::open(folder_ / "run", false);
  Spy before, broken, behind;
  broken.refuses = 2;
  EXPECT_ERROR(run(folder, request(), {&before, &broken, &behind}), "E-IO-WRITE", "spy");
  EXPECT_EQ(read_progress(folder.checkpoint()).updates, 2) << "what was learned is kept";
  const auto saw = [](const Spy& spy, const char* word) { return std::ranges::count(spy.seen, word) == 1; };
  EXPECT_TRUE(saw(before, "updated 2"));
  EXPECT_FALSE(saw(behind, "updated 2"));
  for (const Spy* spy : {&before, &broken, &behind}) {
    EXPECT_TRUE(saw(*spy, "saved 2"));
    EXPECT_EQ(spy->seen.back(), "failed E-IO-WRITE 2");
  }
}

TEST_F(SessionTest, StopsAndGoesOn) {
  std::vector<double> losses;
  {
    RunFolder folder = RunFolder::open(folder_ / "whole", false);
    Spy spy;
    run(folder, request(), {&spy});
    losses = spy.losses;
  }
  // Stops after two updates, as a signal would.
  struct Stopper : Consumer {
    explicit Stopper(std::string& by) : by_(by) {}
    void see(const Event& event) override {
      if (const auto* updated = std::get_if<Updated>(&event); updated && updated->metrics.update == 2) by_ = "SIGTERM";
    }
    std::string& by_;
  } stopper(stopped_by_);
  Spy stopped, resumed;
  {
    RunFolder folder = RunFolder::open(folder_ / "run", false);
    RunLines lines(folder);
    RunRecord record(folder);
    run(folder, request(), {&lines, &record, &stopper, &stopped});
    EXPECT_EQ(run_status(folder.path()), "interrupted");
    EXPECT_EQ(record.report().exit_code, static_cast<int>(ExitCode::interrupted));
  }
  stopped_by_.clear();
  {
    RunFolder folder = RunFolder::open(folder_ / "run", true);
    RunLines lines(folder);
    RunRecord record(folder);
    run(folder, request(/*resumes=*/true), {&lines, &record, &resumed});
    int count = 0;
    read_metrics(folder.path(), [&](const Metrics& metrics) { EXPECT_EQ(metrics.update, ++count); });
    EXPECT_EQ(count, 4);
  }
  EXPECT_EQ(std::ranges::count(stopped.seen, "stopped"), 1);
  EXPECT_EQ(std::ranges::count(resumed.seen, "continues 2"), 1);
  EXPECT_EQ(std::ranges::count(resumed.seen, "begun 2"), 1) << "what the checkpoint had reached";
  EXPECT_EQ(resumed.seen.back(), "ended");
  stopped.losses.insert(stopped.losses.end(), resumed.losses.begin(), resumed.losses.end());
  EXPECT_EQ(stopped.losses, losses) << "the same numbers as without the stop";
}

}  // namespace
}  // namespace plimsoll
