#include "verify/verify_ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/image_rules.h"
#include "data/data_kinds.h"
#include "data/order.h"
#include "verify/saved_tensors.h"
#include "verify/shown_gradient.h"
#include "verify/tensors.h"
#include "verify/trial.h"

namespace plimsoll::verification {
namespace {

using nlohmann::json;

constexpr const char* kSubject = "ranks";
constexpr int kUpdates = 8;               // of the trainings that are compared with one process
constexpr int kShort = 2, kLong = 4;      // updates, whose difference shows the bytes of an update
constexpr double kMostError = 1e-5;       // of a gradient, and of the loss for each update
constexpr double kMostStatistics = 1e-5;  // of running statistics
constexpr std::int64_t kMostGroup = 4;    // samples that share the statistics of batch normalisation

class RankVerification {
 public:
  RankVerification(const Config& config, const DataSet& data, int ranks, const std::filesystem::path& folder,
                   std::function<void(const std::string&)> tell, const std::function<void(const Check&)>& hear)
      : config_(config),
        data_(data),
        ranks_(ranks),
        folder_(folder),
        hear_(hear),
        trials_(config, folder, std::move(tell)),
        verdict_(verdict_of(config)) {}

  Verdict run() {
    choose_window();
    verdict_.samples = samples();
    verdict_.stat_batch = group_;
    verdict_.ranks = ranks_;
    gradients();
    training();
    bits_and_bytes();
    if (one_) controls();
    if (one_) trials_.forget(*one_);
    return std::move(verdict_);
  }

 private:
  std::int64_t samples() const { return micro_ * micros_; }
  Reading reading() const { return {.row = config_.model.context}; }

  // The ranks do not divide the micro-batches of a window, and each has several if the data are enough.
  void choose_window() {
    const std::int64_t whole = data_.most_extracted(reading());
    if (const std::int64_t most = stat_batch(config_); most > 0) micro_ = group_ = std::min(most, kMostGroup);
    micros_ = 2 * ranks_ + 1;
    if (samples() > whole) micros_ = ranks_ + 1;
    if (samples() > whole) {
      throw data_error("E-DATA-SHORT", data_.name(),
                       fmt::format("it has {}, and the window of {} ranks has {}",
                                   samples_text(data_.kind(), whole, config_.model.context), ranks_, samples()),
                       "longer data, or fewer ranks");
    }
    extract_ = data_.extract(folder_, samples(), reading());
  }

  TrialRequest request(std::string name, int ranks, int updates, const Changes& more) const {
    TrialRequest request{std::move(name), trial_changes(extract_.changes, samples(), group_), {}, updates, ranks};
    request.changes.emplace_back("train.micro_batch", micro_);
    request.changes.emplace_back("train.accumulation", "auto");
    if (group_ > 0) request.changes.emplace_back("norm.momentum", "0.5");
    request.changes = with(std::move(request.changes), more);
    return request;
  }
  TrialRequest showing_gradient(std::string name, int ranks) const {
    Changes changes = with(kShowGradient, kExact);
    if (config_.schedule.momentum) changes.emplace_back("schedule.momentum_range", "none");
    return request(std::move(name), ranks, 2, changes);
  }

  void add(Check check) {
    hear_(check);
    verdict_.checks.push_back(std::move(check));
  }
  void add(std::string what, bool passed, std::string found, std::string limit, std::string command) {
    add({kSubject, std::move(what), std::move(found), std::move(limit), passed ? Outcome::passed : Outcome::failed,
         std::move(command)});
  }
  // Returns true if the trial ran, else adds the reason. Refused trials prove nothing; ranks that diverge or fail beside a
  // process that does not are a failure.
  bool ran(const Trial& trial, const std::string& what, bool beside) {
    const Trial::End end = trial.end();
    if (end == Trial::End::ran) return true;
    const bool failed = end == Trial::End::failed || (beside && end == Trial::End::diverged);
    add({kSubject, what, trial.said, "", failed ? Outcome::failed : Outcome::skipped, trial.command});
    trials_.forget(trial);
    return false;
  }

  // Gradients of the second window, where remains of the first would show.
  void gradients() {
    const std::string what = fmt::format("gradient of {} micro-batches", micros_);
    Trial several = trials_.run(showing_gradient("ranks-gradient", ranks_));
    one_ = trials_.run(showing_gradient("one-gradient", 1));
    if (!ran(*one_, what + ", one process", several.ran())) return one_.reset();
    if (!ran(several, what, true)) return;
    const Difference found = difference(several.saved(), one_->saved(), kGradient);
    add(what, found.worst <= kMostError, fmt::format("{} of {}", relative(found.worst), found.tensor), relative(kMostError),
        several.command);
    if (group_ > 0) {
      const StatisticsDifference statistics = compare_statistics(several.checkpoint(), one_->checkpoint());
      add("running statistics", statistics.values <= kMostStatistics && statistics.same_windows,
          fmt::format("{}{}", relative(statistics.values), statistics.same_windows ? "" : ", another number of windows"),
          relative(kMostStatistics), several.command);
    }
    trials_.forget(several);
  }

  // The user's optimizer. Its state in fewer bits would turn a last bit of the gradient into another rounding.
  void training() {
    const Changes exact = with(kExact, {{"precision.optimizer_state", "fp32"}});
    const Trial several = trials_.run(request("ranks", ranks_, kUpdates, exact));
    const Trial one = trials_.run(request("one", 1, kUpdates, exact));
    if (!ran(one, "a training by one process", several.ran()) || !ran(several, "a training", true)) return;
    double worst = 0;  // as a multiple of the bound
    bool schedule = true;
    for (std::size_t i = 0; i < one.updates.size(); ++i) {
      const double loss = one.updates[i].loss, most = kMostError * static_cast<double>(i + 1) * std::max(std::abs(loss), 1e-30);
      worst = std::max(worst, std::abs(several.updates.at(i).loss - loss) / most);
      schedule = schedule && several.updates[i].learning_rate == one.updates[i].learning_rate;
    }
    add(fmt::format("losses of {} updates", kUpdates), worst <= 1 && schedule,
        fmt::format("{} an update{}", relative(worst * kMostError), schedule ? "" : ", another learning rate"),
        relative(kMostError), several.command);
    const Difference found = difference(several.saved(), one.saved(), "");
    add(fmt::format("parameters after {} updates", kUpdates), found.total <= kMostError * kUpdates, relative(found.total),
        relative(kMostError * kUpdates), several.command);
    trials_.forget(one);
    trials_.forget(several);
  }

  // The user's precision.
  void bits_and_bytes() {
    const Trial first = trials_.run(request("first", ranks_, kShort, {}));
    if (!ran(first, "a run", false)) return;
    const Trial again = trials_.run(request("again", ranks_, kShort, {}));
    if (ran(again, "the same run again", true)) {
      std::string differs = differing_file(again.saved(), first.saved());
      for (std::size_t i = 0; i < first.updates.size() && differs.empty(); ++i) {
        if (bits_hex(again.updates.at(i).loss) != bits_hex(first.updates[i].loss)) differs = "the loss";
      }
      add("the same run again", differs.empty(), differs.empty() ? "the same bits" : differs + " differs", "the same bits",
          again.command);
    }
    trials_.forget(again);
    bytes(first);
    trials_.forget(first);
  }

  void bytes(const Trial& first) {
    TrialRequest audited = request("bytes", ranks_, kLong, {});  // a name as long as that of the other run, which ranks exchange
    audited.options.push_back("--audit");
    const Trial trial = trials_.run(audited);
    if (!ran(trial, "bytes in memory", true)) return;
    add("bytes in memory", true, "planned = measured on each rank", "no difference", trial.command);
    const json plan = planned_by(trial);
    const json few = report(first).at("ranks"), many = report(trial).at("ranks"), &planned = plan.at("ranks");
    std::int64_t sent = 0, off = 0;
    for (std::size_t rank = 0; rank < many.size(); ++rank) {
      std::int64_t expected = 0;
      for (const auto& [kind, count] : planned.at(rank).at("sent").items()) expected += count.get<std::int64_t>();
      const auto count = [&](const json& of) { return of.at(rank).at("sent_bytes").get<std::int64_t>(); };
      const std::int64_t measured = count(many) - count(few);
      sent += measured;
      off += std::abs(measured - (kLong - kShort) * expected);
    }
    add("bytes that ranks send", off == 0,
        fmt::format("{} an update{}", to_text(Bytes{sent / (kLong - kShort)}),
                    off == 0 ? ", as planned" : fmt::format(", {} B beside the plan", off)),
        "as planned", trial.command);
    trials_.forget(trial);
  }
  static json json_of(const Trial& trial, const char* name) {
    std::ifstream file(trial.folder / name);
    return json::parse(file);
  }
  static json planned_by(const Trial& trial) { return json_of(trial, "plan.json"); }
  static json report(const Trial& trial) { return json_of(trial, "run.json"); }

  // The units of each rank's micro-batches in the second window.
  std::vector<double> units_of_ranks() const {
    const SampleOrder order{config_.data.order, static_cast<std::uint64_t>(config_.seed), samples()};
    std::vector<double> units(static_cast<std::size_t>(ranks_));
    for (std::int64_t i = 0; i < samples(); ++i) {
      units[static_cast<std::size_t>(i / micro_ % ranks_)] += static_cast<double>(extract_.units[order.at(samples() + i).sample]);
    }
    return units;
  }

  // Gives the micro-batches of a window the weights of their ranks.
  void control(const std::string& what, const std::vector<double>& weights) {
    std::vector<double> each;
    for (std::int64_t i = 0; i < micros_; ++i) each.push_back(weights[static_cast<std::size_t>(i % ranks_)]);
    TrialRequest wrong = showing_gradient("wrong", ranks_);
    wrong.options = {"--fault", weights_text(each)};
    const Trial trial = trials_.run(wrong);
    if (!trial.ran()) {
      const bool noticed = trial.end() == Trial::End::diverged;
      add({"control", what, trial.said, "", noticed ? Outcome::passed : Outcome::skipped, trial.command});
    } else {
      const Difference found = difference(trial.saved(), one_->saved(), kGradient);
      add({"control", what, fmt::format("gradient off by {}", percent(found.total)), "is noticed",
           found.worst > kMostError ? Outcome::passed : Outcome::failed, trial.command});
    }
    trials_.forget(trial);
  }
  void controls() {
    const std::vector<double> units = units_of_ranks();
    const double all = std::accumulate(units.begin(), units.end(), 0.0);
    std::vector<double> means, left_out(units.size(), 1);
    for (const double each : units) means.push_back(all / (static_cast<double>(ranks_) * each));
    left_out.back() = 0;
    control("a mean of the means of ranks", means);
    control("a rank that is left out", left_out);
  }

  const Config& config_;
  const DataSet& data_;
  int ranks_;
  std::filesystem::path folder_;
  const std::function<void(const Check&)>& hear_;
  CheckedTrials trials_;
  Verdict verdict_;
  DataExtract extract_;
  std::int64_t micro_ = 1, micros_ = 0;  // samples of a micro-batch; micro-batches of a window
  std::int64_t group_ = 0;               // samples that share the statistics of batch normalisation; 0: none
  std::optional<Trial> one_;             // one process, its gradient
};

}  // namespace

Verdict verify_ranks(const Config& config, const DataSet& data, int ranks, const std::filesystem::path& folder,
                     const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear) {
  return RankVerification(config, data, ranks, folder, tell, hear).run();
}

}  // namespace plimsoll::verification
