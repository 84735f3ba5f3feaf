#include "verify/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "config/image_rules.h"
#include "data/data_kinds.h"
#include "data/order.h"
#include "models/family.h"
#include "verify/rounding.h"
#include "verify/shown_gradient.h"
#include "verify/tensors.h"
#include "verify/trial.h"

namespace plimsoll::verification {
namespace {

constexpr std::array<std::int64_t, 5> kWindows{12, 8, 6, 4, 2};  // samples
constexpr double kRuns = 70, kMostSeconds = 180;                 // windows of all trials; target duration
constexpr double kChange = 2e-3;  // relative change of the loss by moved weights: far above its rounding
// ReLUs that flip within a step, and statistics of few values, bend the loss of models with batch normalisation.
constexpr double kMostSlopeError = 0.01, kMostBentSlope = 0.05;
constexpr double kMostSplitError = 1e-6;    // error of a gradient's sum in another order, times the root of the micro-steps
constexpr double kMostRoundedSum = 4e-3;    // bf16 rounds to one of two neighbours at each micro-step
constexpr double kMostRoundedSplit = 2e-3;  // with rounded values between layers, a last bit of fp32 may turn a rounding
constexpr double kMostLossError = 1e-6, kMostRoundedLoss = 1e-4;
constexpr double kMostStatisticsError = 1e-5, kMostRoundedStatistics = 2e-3;  // of running statistics
// Trials move running statistics far. Configurations that move them slowly would hide an error.
constexpr const char* kMomentum = "0.5";
constexpr double kMostNarrowError = 0.1, kMostNarrowLoss = 0.01;
// Statistics of few samples and ReLUs that flip enlarge a rounding: in a new ResNet of four blocks bf16 is 24 % off.
constexpr double kMostNarrowNormed = 0.5;
constexpr double kMostBias = 4, kMostSpread = 1.5;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) all.push_back(i);
  }
  return all;
}

class Verification {
 public:
  Verification(const Config& config, const DataSet& data, const std::filesystem::path& folder,
               std::function<void(const std::string&)> tell, const std::function<void(const Check&)>& hear)
      : config_(config),
        data_(data),
        folder_(folder),
        hear_(hear),
        trials_(config, folder, std::move(tell)),
        verdict_(verdict_of(config)),
        most_stat_batch_(stat_batch(config)) {}

  Verdict run() {
    choose_window();
    slopes();
    splits();
    precision();
    bits();
    rounding();
    controls();
    for (const std::optional<Trial>* kept : {&whole_, &clipped_, &split_, &short_}) {
      if (*kept) trials_.forget(**kept);
    }
    return std::move(verdict_);
  }

 private:
  // Trials of the configuration on a few samples of its data. The last sample is short, so that micro-batches have different
  // weights.
  TrialRequest request(std::string name, std::int64_t samples, std::int64_t accumulation, int updates,
                       const Changes& more) const {
    TrialRequest request{std::move(name), trial_changes(extract_.changes, samples, group_), {}, updates};
    const bool chosen = accumulation > 0;
    const auto choice = [chosen](std::int64_t value) { return chosen ? std::to_string(value) : "auto"; };
    request.changes.emplace_back("train.micro_batch", choice(chosen ? samples / accumulation : 0));
    request.changes.emplace_back("train.accumulation", choice(accumulation));
    request.changes = with(std::move(request.changes), more);
    return request;
  }
  TrialRequest showing_gradient(std::string name, std::int64_t samples, std::int64_t accumulation, int updates,
                                const Changes& more = {}) const {
    Changes changes = kShowGradient;
    if (config_.schedule.momentum) changes.emplace_back("schedule.momentum_range", "none");
    if (group_ > 0) changes.emplace_back("norm.momentum", kMomentum);
    return request(std::move(name), samples, accumulation, updates, with(std::move(changes), more));
  }

  Reading reading() const { return {.row = config_.model.context}; }

  // The group of batch normalisation in a window: the largest divisor up to that of the configuration, at least two groups to a
  // window. 0 if there is no batch normalisation.
  std::int64_t group_of(std::int64_t window) const {
    if (most_stat_batch_ == 0) return 0;
    std::int64_t group = std::min(most_stat_batch_, window / 2);
    while (window % group != 0) --group;
    return group;
  }
  // The smallest window. A group of one sample may have one value for each channel, which has no variance.
  std::int64_t least_window() const { return most_stat_batch_ > 1 ? 4 : 2; }
  bool is_window(std::int64_t window) const { return most_stat_batch_ < 2 || group_of(window) > 1; }

  // The effective batch if it is small, else a number of samples for which all trials take a few minutes.
  void choose_window() {
    const std::int64_t whole = data_.most_extracted(reading()), asked = config_.train.effective_batch, least = least_window();
    if (whole < 2) throw data_.too_short(reading());
    if (whole < least) {
      throw data_error("E-DATA-SHORT", data_.name(),
                       fmt::format("it has {}, and groups of batch normalisation have two or more",
                                   samples_text(data_.kind(), whole, config_.model.context)),
                       "at least two groups");
    }
    std::vector<std::int64_t> windows;
    if (asked <= kWindows.front()) windows.push_back(std::max(asked, least));
    std::copy_if(kWindows.begin(), kWindows.end(), std::back_inserter(windows), [&](std::int64_t each) { return each < asked; });
    std::erase_if(windows, [&](std::int64_t window) { return window > whole || !is_window(window); });
    if (windows.empty()) windows.push_back(least);
    for (const std::int64_t window : windows) {
      samples_ = window;
      group_ = group_of(window);
      extract_ = data_.extract(folder_, window, reading());
      const nlohmann::json plan = trials_.plan(showing_gradient("plan", window, 0, 1));
      if (kRuns * plan.at("predicted").at("update_seconds").get<double>() <= kMostSeconds) break;
    }
    verdict_.samples = samples_;
    verdict_.stat_batch = group_;
    several_ = splits_of_window()[1];
  }
  // The numbers of micro-steps of a window: micro-batches hold whole groups.
  std::vector<std::int64_t> splits_of_window() const {
    std::vector<std::int64_t> splits = divisors(samples_);
    if (group_ > 0) std::erase_if(splits, [&](std::int64_t each) { return samples_ / each % group_ != 0; });
    return splits;
  }

  void add(Check check) {
    hear_(check);
    verdict_.checks.push_back(std::move(check));
  }
  void add(std::string subject, std::string what, bool passed, std::string found, std::string limit, std::string command) {
    add({std::move(subject), std::move(what), std::move(found), std::move(limit), passed ? Outcome::passed : Outcome::failed,
         std::move(command)});
  }
  // Returns true if the trial ran, else adds the reason. Refused trials prove nothing. Divergence counts only if another split or
  // plan of the same training (`beside`) did not diverge.
  bool ran(const Trial& trial, const std::string& subject, const std::string& what, bool beside = false) {
    const Trial::End end = trial.end();
    if (end == Trial::End::ran) return true;
    const bool failed = end == Trial::End::failed || (beside && end == Trial::End::diverged);
    add({subject, what, end == Trial::End::no_room ? "does not fit into the budget" : trial.said, "",
         failed ? Outcome::failed : Outcome::skipped, trial.command});
    trials_.forget(trial);
    return false;
  }

  // One window for slopes: the first sample, in fp32. With batch normalisation it is all samples as one group, since statistics
  // of few values bend the loss.
  TrialRequest slope_request(std::string name, Changes more = kExact) const {
    if (group_ > 0) more.emplace_back("norm.stat_batch", samples_);
    return showing_gradient(std::move(name), group_ > 0 ? samples_ : 1, 1, 1, more);
  }
  // Slopes of the loss when a group's weights move along their gradient.
  void slopes() {
    const Trial at = trials_.run(slope_request("slope"));
    if (!ran(at, "gradient", "of the loss")) return;
    const GroupSums groups = compare_tensors(at.checkpoint(), at.checkpoint(), kGradient);
    const double most = group_ > 0 ? kMostBentSlope : kMostSlopeError;
    for (const auto& [group, sums] : groups) {
      const std::string what = "of " + group;
      if (sums.reference == 0) {
        add({"gradient", what, "is zero", "", Outcome::skipped, at.command});
        continue;
      }
      // If the loss bends within one step, a shorter or a longer one shows its slope.
      std::optional<double> least;
      std::optional<Trial> odd;  // a trial that did not run
      for (const double change : {kChange, kChange / 8, kChange * 8, kChange / 64}) {
        const auto moved = slope_error(at, group, change / sums.reference, odd);
        if (!moved) continue;
        least = std::min(std::abs(*moved), least.value_or(HUGE_VAL));
        if (*least <= kMostSlopeError) break;
      }
      if (!least) {
        ran(*odd, "gradient", what);
        continue;
      }
      add("gradient", what, *least <= most, percent(*least), percent(most), at.command);
    }
    trials_.forget(at);
    std::error_code ignored;
    std::filesystem::remove_all(moved(), ignored);
  }
  std::filesystem::path moved() const { return folder_ / "moved"; }

  // The relative error of central differences against the gradient.
  std::optional<double> slope_error(const Trial& at, const std::string& group, double step, std::optional<Trial>& odd) {
    double change = 0, expected = 0;
    Changes from = with(kExact, {{"model.init", moved().string()}});
    if (facts_of(config_.model.config).new_head) from.emplace_back("model.head", "keep");  // the moved weights have one
    for (const double sign : {1.0, -1.0}) {
      expected += sign * write_moved(at.weights(), at.checkpoint(), kGradient, group, sign * step, moved());
      const Trial there = trials_.run(slope_request("moved-run", from));
      trials_.forget(there);
      if (!there.ran()) {
        odd = there;
        return {};
      }
      change += sign * there.updates.at(0).loss;
    }
    return change / expected - 1;
  }

  // The relative differences between two trials. Gradients are those of the second window, where remains of the first would show.
  struct Agreement {
    double gradient = 0, loss = 0;
    StatisticsDifference statistics;
    bool schedule = true;
  };
  static Agreement agreement(const Trial& trial, const Trial& with) {
    Agreement found;
    found.gradient = total(compare_tensors(trial.checkpoint(), with.checkpoint(), kGradient)).relative();
    found.statistics = compare_statistics(trial.checkpoint(), with.checkpoint());
    ensure(trial.updates.size() == with.updates.size(), "verify", "trials of other lengths");
    for (std::size_t i = 0; i < with.updates.size(); ++i) {
      const double loss = with.updates[i].loss;
      found.loss = std::max(found.loss, std::abs(trial.updates[i].loss - loss) / std::max(std::abs(loss), 1e-30));
      found.schedule = found.schedule && trial.updates[i].learning_rate == with.updates[i].learning_rate;
    }
    return found;
  }
  static std::string text(const StatisticsDifference& found) {
    return fmt::format("statistics {}{}", relative(found.values), found.same_windows ? "" : ", another number of windows");
  }
  bool rounded() const { return config_.precision.compute != DType::f32; }
  bool rounds_sums() const { return config_.precision.gradients != DType::f32; }
  double most_split_error(std::int64_t accumulation) const {
    const double each = rounds_sums() ? kMostRoundedSum : rounded() ? kMostRoundedSplit : kMostSplitError;
    return each * std::sqrt(static_cast<double>(accumulation));
  }
  double most_statistics_error() const { return rounded() ? kMostRoundedStatistics : kMostStatisticsError; }
  bool agrees(const Agreement& found, std::int64_t accumulation) const {
    return found.gradient <= most_split_error(accumulation) && found.loss <= (rounded() ? kMostRoundedLoss : kMostLossError) &&
           found.statistics.values <= most_statistics_error() && found.statistics.same_windows && found.schedule;
  }

  void splits() {
    for (const std::int64_t accumulation : splits_of_window()) {
      const std::string what = fmt::format("{} x {} samples", accumulation, samples_ / accumulation);
      const Trial trial = trials_.run(showing_gradient(fmt::format("split-{}", accumulation), samples_, accumulation, 2));
      if (!ran(trial, "batch", what, whole_.has_value())) continue;
      if (whole_) {
        add_split(what, trial, *whole_, accumulation);
        if (group_ > 0 && accumulation == several_) {
          split_ = trial;
        } else {
          trials_.forget(trial);
        }
      } else {
        whole_ = trial;
        add({"batch", what, "what the others are compared with", "", Outcome::passed, trial.command});
      }
    }
    clipped_splits();
    short_splits();
  }

  // The second window lacks its last sample, so that a row is absent.
  Changes short_window() const {
    return {{"train.epochs", fmt::format("{:.9g}", (2 * static_cast<double>(samples_) - 1.5) / static_cast<double>(samples_))}};
  }
  void short_splits() {
    if (group_ == 0) return;
    const std::string what = fmt::format("{} x {} samples, the last one absent", several_, samples_ / several_);
    const Trial once = trials_.run(showing_gradient("short", samples_, 1, 2, short_window()));
    const Trial parts = trials_.run(showing_gradient("short-parts", samples_, several_, 2, short_window()));
    if (ran(parts, "batch", what, once.ran())) short_ = parts;
    if (ran(once, "batch", fmt::format("1 x {} samples, the last one absent", samples_), parts.ran()) && short_) {
      add_split(what, parts, once, several_);
    }
    trials_.forget(once);
  }

  // Clipping applies to the window. The limit lies below the norm of each micro-step, which a window of that
  // micro-step alone shows.
  void clipped_splits() {
    const std::string what = fmt::format("{} x {} samples, clipped", several_, samples_ / several_);
    const Trial alone = trials_.run(showing_gradient("alone", samples_ / several_, 1, static_cast<int>(2 * several_)));
    if (!ran(alone, "batch", what)) return;
    const std::vector<double> units = micro_units();
    const double all = std::accumulate(units.begin(), units.end(), 0.0);
    for (std::size_t i = 0; i < units.size(); ++i) {
      micro_norms_.push_back(alone.updates.at(units.size() + i).grad_norm * units[i] / all);
    }
    trials_.forget(alone);
    clip_ = *std::min_element(micro_norms_.begin(), micro_norms_.end()) / 2;
    if (!(clip_ > 0) || !std::isfinite(clip_)) {
      add({"batch", what, "a micro-step has no gradient", "", Outcome::skipped, ""});
      return;
    }
    const Change clip{"train.gradient_clip", fmt::format("{:.9g}", clip_)};
    const Trial once = trials_.run(showing_gradient("clipped", samples_, 1, 2, {clip}));
    const Trial parts = trials_.run(showing_gradient("clipped-parts", samples_, several_, 2, {clip}));
    if (ran(parts, "batch", what, once.ran())) clipped_ = parts;
    if (ran(once, "batch", fmt::format("1 x {} samples, clipped", samples_), parts.ran()) && clipped_) {
      add_split(what, parts, once, several_);
    }
    trials_.forget(once);
  }

  void add_split(const std::string& what, const Trial& trial, const Trial& with, std::int64_t accumulation) {
    const Agreement found = agreement(trial, with);
    const double most = most_split_error(accumulation), most_loss = rounded() ? kMostRoundedLoss : kMostLossError;
    add("batch", what, agrees(found, accumulation),
        fmt::format("gradient {}, loss {}{}{}", relative(found.gradient), relative(found.loss),
                    group_ > 0 ? ", " + text(found.statistics) : "", found.schedule ? "" : ", another learning rate"),
        fmt::format("{}, {}{}", relative(most), relative(most_loss), group_ > 0 ? ", " + relative(most_statistics_error()) : ""),
        trial.command);
  }

  // Compares the gradients of the chosen precision with fp32, by kind of layer.
  void precision() {
    if (!rounded() && !rounds_sums()) {
      add({"precision", "of fp32", "nothing is rounded", "", Outcome::passed, ""});
      return;
    }
    if (!whole_) return;
    const Trial exact = trials_.run(showing_gradient("exact", samples_, several_, 2, kExact));
    if (!ran(exact, "precision", "beside fp32")) return;
    const double most = group_ > 0 ? kMostNarrowNormed : kMostNarrowError;
    for (const auto& [group, sums] : compare_tensors(whole_->checkpoint(), exact.checkpoint(), kGradient)) {
      add("precision", "gradient of " + group, sums.relative() <= most, percent(sums.relative()), percent(most), exact.command);
    }
    const double error = std::abs(whole_->updates.back().loss / exact.updates.back().loss - 1);
    add("precision", "loss", error <= kMostNarrowLoss, relative(error), relative(kMostNarrowLoss), exact.command);
    trials_.forget(exact);
  }

  // The weights of micro-steps in the second window, in units.
  std::vector<double> micro_units() const {
    const SampleOrder order{config_.data.order, static_cast<std::uint64_t>(config_.seed), samples_};
    const std::int64_t micro = samples_ / several_;
    std::vector<double> units;
    for (std::int64_t i = 0; i < several_; ++i) {
      std::int64_t sum = 0;
      for (std::int64_t j = 0; j < micro; ++j) sum += extract_.units[order.at(samples_ + i * micro + j).sample];
      units.push_back(static_cast<double>(sum));
    }
    return units;
  }

  // Runs a deliberately wrong window; it is noticed if it fails the limits of correct ones.
  void control(const std::string& what, const std::vector<double>& weights, const Trial& with) {
    if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1; })) {
      add({"control", what, "all samples weigh the same", "", Outcome::skipped, ""});
      return;
    }
    control(what, weights_text(weights), with);
  }
  void control(const std::string& what, const std::string& fault, const Trial& with) {
    TrialRequest wrong = showing_gradient(fmt::format("wrong-{}", ++controls_), samples_, several_, 2, {{"plan.group", "1"}});
    wrong.options.insert(wrong.options.end(), {"--fault", fault});
    const Trial trial = trials_.run(wrong);
    // A trial that ends for another reason shows nothing.
    bool noticed = trial.end() == Trial::End::diverged;
    if (!trial.ran() && !noticed) {
      add({"control", what, trial.fits() ? trial.said : "does not fit into the budget", "", Outcome::skipped, trial.command});
      trials_.forget(trial);
      return;
    }
    std::string found = trial.said;
    if (trial.ran()) {
      const Agreement agreed = agreement(trial, with);
      noticed = !agrees(agreed, several_);
      found = agreed.gradient > 10 ? "another gradient altogether" : fmt::format("gradient off by {}", percent(agreed.gradient));
    }
    add("control", what, noticed, found, "is noticed", trial.command);
    trials_.forget(trial);
  }

  // Compares the running statistics of a deliberately wrong training with those of the same one without the fault.
  void control_statistics(const std::string& what, const std::string& fault, const Trial& with, const Changes& more = {}) {
    TrialRequest wrong = showing_gradient(fmt::format("wrong-{}", ++controls_), samples_, several_, 2,
                                          verification::with({{"plan.group", "1"}}, more));
    wrong.options.insert(wrong.options.end(), {"--fault", fault});
    const Trial trial = trials_.run(wrong);
    if (!trial.ran()) {
      add({"control", what, trial.fits() ? trial.said : "does not fit into the budget", "", Outcome::skipped, trial.command});
    } else {
      const StatisticsDifference off = compare_statistics(trial.checkpoint(), with.checkpoint());
      add("control", what, off.values > kMostStatisticsError, text(off), "is noticed", trial.command);
    }
    trials_.forget(trial);
  }

  void controls_of_statistics() {
    if (!split_) return;
    control_statistics("statistics that each micro-step moves", "statistics=micro", *split_);
    control_statistics("statistics that move twice", "statistics=twice", *split_);
    control_statistics("statistics that a replay adds to again", "statistics=replay", *split_);
    if (!short_) return;
    control_statistics("statistics of rows without a sample", "statistics=rows", *short_, short_window());
  }

  void controls() {
    const std::vector<double> units = micro_units();
    const double all = std::accumulate(units.begin(), units.end(), 0.0), count = static_cast<double>(several_);
    const double nominal = static_cast<double>(samples_ * std::ranges::max(extract_.units));
    std::vector<double> means, twice(units.size(), 1 / count), full(units.size(), all / nominal), clips;
    for (const double each : units) means.push_back(all / (count * each));
    for (const double norm : micro_norms_) clips.push_back(clip_ / norm);
    if (whole_) {
      control("a mean of the means of micro-batches", means, *whole_);
      control("gradients that are not cleared", std::string("keep_gradients"), *whole_);
      control("a sum divided twice by the micro-steps", twice, *whole_);
      control("a short window divided as if it were a full one", full, *whole_);
    }
    if (clipped_) control("a clip of each micro-step", clips, *clipped_);
    controls_of_statistics();
    if (rounds_sums()) {
      const RoundingError sums = sum_error(true);
      add("control", "noise that is the same at each micro-step", !right(sums), text(sums), "is noticed", "");
    }
    const RoundingError fixed = rounding_error(config_.precision.optimizer_state, state_decay(), true);
    add("control", "noise that is the same at each update", !right(fixed), text(fixed), "is noticed", "");
  }

  // Checks that the user's optimizer and precision yield equal bits under every plan.
  void bits() {
    const Trial first = trials_.run(with_split("first"));
    if (!ran(first, "bits", "a run")) return;
    const auto same = [&](const std::string& what, const Trial& trial) {
      if (!ran(trial, "bits", what, /*beside=*/true)) return;
      std::string differs = first_difference(trial.checkpoint(), first.checkpoint());
      for (std::size_t i = 0; i < first.updates.size() && differs.empty(); ++i) {
        if (bits_hex(trial.updates.at(i).loss) != bits_hex(first.updates[i].loss)) differs = "the loss";
      }
      add("bits", what, differs.empty(), differs.empty() ? "the same" : differs + " differs", "the same", trial.command);
      trials_.forget(trial);
    };
    same("the same run again", trials_.run(with_split("again")));
    same("interrupted and continued", continued());
    same("every activation kept", trials_.run(with_split("kept", {{"plan.recompute", "none"}})));
    same("every activation computed again", trials_.run(with_split("replayed", {{"plan.recompute", "all"}})));
    same("one chunk of the loss", trials_.run(with_split("chunk", {{"plan.loss_chunks", "1"}})));
    same("eight chunks of the loss", trials_.run(with_split("chunks", {{"plan.loss_chunks", "8"}})));
    same("micro-batches block by block", trials_.run(with_split("group", {{"plan.group", several_}})));
    if (config_.device == DeviceChoice::cpu) same("the least memory", least_memory());
    same("all on disk", on_disk());
    std::error_code ignored;
    std::filesystem::remove(folder_ / "pages", ignored);
    trials_.forget(first);
  }

  TrialRequest with_split(std::string name, const Changes& more = {}) const {
    return request(std::move(name), samples_, several_, 2, more);
  }

  Trial continued() {
    TrialRequest one = with_split("continued");
    one.updates = 1;
    const Trial begun = trials_.run(one);
    if (!begun.ran()) return begun;
    TrialRequest two = with_split("continued");
    two.options.push_back("--resume");
    Trial ended = trials_.run(two);
    ended.command = begun.command;  // the second run continues it
    return ended;
  }

  Trial least_memory() {
    const nlohmann::json plan = trials_.plan(with_split("plan"));
    TrialRequest least = with_split("least");
    least.options.insert(least.options.end(),
                         {"--memory", std::to_string(plan.at("bounds").at("floor_bytes").get<std::int64_t>())});
    return trials_.run(least);
  }

  // A trial with all values on a disk, activations included if the model has enough blocks.
  Trial on_disk() {
    const Trial all = on_disk({{"plan.activations", "disk"}});
    return all.said.starts_with("E-PLAN-ACTIVATIONS") ? on_disk({}) : all;
  }
  Trial on_disk(const Changes& more) {
    TrialRequest disk = with_split(
        "disk", with({{"plan.optimizer_state", "disk"}, {"plan.parameters", "disk"}, {"plan.gradients", "disk"}}, more));
    if (!config_.memory.disk) disk.options.insert(disk.options.end(), {"--disk", (folder_ / "pages").string() + ":1TiB"});
    return trials_.run(disk);
  }

  // The decay for the rounding test: the optimizer's, if it is slow enough. Below kFastest, too few roundings remain for
  // statistics (none at 1/2).
  double state_decay() const {
    constexpr double kFastest = 0.9, kUsual = 0.95;
    const OptimizerChoice& optimizer = config_.optimizer;
    const double decay = optimizer.kind == OptimizerKind::sgd ? optimizer.momentum : optimizer.beta2;
    return optimizer.kind == OptimizerKind::adafactor || decay < kFastest ? kUsual : decay;
  }
  static std::string text(const RoundingError& error) {
    return fmt::format("{:.2f} x theory, bias {:.1f} sigma", error.spread, error.bias);
  }
  static bool right(const RoundingError& error) {
    return error.spread <= kMostSpread && error.spread >= 1 / kMostSpread && std::abs(error.bias) <= kMostBias;
  }

  void rounding() {
    if (rounds_sums()) {
      const RoundingError sums = sum_error(false);
      add("rounding", "gradients in bf16, 1,000 micro-steps", right(sums), text(sums), "1.5 x, 4 sigma", "");
    }
    const double decay = state_decay();
    const DType state = config_.precision.optimizer_state;
    const RoundingError own = rounding_error(state, decay, false);
    const std::string what = state == DType::f32 ? "in bf16 (not used here)" : fmt::format("in {}", precision_name(state));
    add("rounding", fmt::format("state {} over many updates, decay {}", what, decay), right(own), text(own), "1.5 x, 4 sigma",
        "");
  }

  const Config& config_;
  const DataSet& data_;
  std::filesystem::path folder_;
  const std::function<void(const Check&)>& hear_;
  CheckedTrials trials_;
  Verdict verdict_;
  DataExtract extract_;
  std::int64_t samples_ = 2, several_ = 2;  // samples of a window; micro-steps of a split window
  std::int64_t most_stat_batch_ = 0;        // the group of batch normalisation of the configuration; 0: none
  std::int64_t group_ = 0;                  // that of all trials
  // Correct trials: the one with the fewest micro-steps; a split one with a clip; with batch normalisation a split one, and one
  // with an absent sample.
  std::optional<Trial> whole_, clipped_, split_, short_;
  std::vector<double> micro_norms_;  // gradient norms of the micro-steps of a split window
  double clip_ = 0;
  int controls_ = 0;
};

}  // namespace

Verdict verify_training(const Config& config, const DataSet& data, const std::filesystem::path& folder,
                        const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear) {
  return Verification(config, data, folder, tell, hear).run();
}

}  // namespace plimsoll::verification
