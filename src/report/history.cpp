#include "report/history.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "records/run_parts.h"
#include "report/html.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::size_t kMostEvaluations = 20'000, kMostEvents = 64, kMostSeconds = 20'000;

// Every n-th value, so that quantiles of many take little memory.
class Sample {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    if (seen_++ % every_ != 0) return;
    values_.push_back(value);
    if (values_.size() < kMostSeconds) return;
    for (std::size_t i = 0; 2 * i < values_.size(); ++i) values_[i] = values_[2 * i];
    values_.resize((values_.size() + 1) / 2);
    every_ *= 2;
  }
  double quantile(double share) {
    if (values_.empty()) return 0;
    const auto at = values_.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values_.size() - 1));
    std::nth_element(values_.begin(), at, values_.end());
    return *at;
  }

 private:
  std::vector<double> values_;
  std::int64_t seen_ = 0, every_ = 1;
};

// The members of an event besides its name and update, in words.
std::string words_of(const json& event) {
  constexpr std::size_t kMost = 300;
  std::string text;
  for (const auto& [key, value] : event.items()) {
    if (key == "event" || key == "update" || value.is_null()) continue;
    std::string word;
    if (value.is_string()) {
      word = value.get<std::string>();
    } else if (value.is_number_float()) {
      word = number_text(value.get<double>());
    } else if (value.is_array() && std::ranges::all_of(value, [](const json& each) { return each.is_string(); })) {
      for (const json& each : value) word += (word.empty() ? "" : ", ") + each.get<std::string>();
    } else if (value.is_primitive()) {
      word = value.dump();
    } else {
      continue;
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", key, word);
    if (text.size() > kMost) break;
  }
  return shortened(text, kMost);
}

void read_events_of(const Run& run, RunHistory& history) {
  read_events(run.path, [&](const json& event) {
    if (!event.is_object()) return;
    const auto name = event.find("event"), update = event.find("update");
    if (name == event.end() || !name->is_string()) return;
    const auto text = name->get<std::string>();
    if (!history.events.contains(text) && history.events.size() >= kMostEvents) return;
    ToldEvent& told = history.events[text];
    told.name = text;
    told.last = update != event.end() && update->is_number_integer() ? update->get<std::int64_t>() : 0;
    if (told.count++ == 0) told.first = told.last;
    told.text = words_of(event);
  });
}

// Every n-th answer to a prompt stays, and the last one.
void read_prompts(const Run& run, RunHistory& history) {
  constexpr std::size_t kMostPrompts = 64, kMostAnswers = 32;
  struct Reading {
    AnsweredPrompt prompt;
    std::int64_t every = 1;
    Answer last;
  };
  std::vector<Reading> prompts;
  read_answers(run.path, [&](const Answer& answer) {
    auto found = std::ranges::find_if(prompts, [&](const Reading& each) {
      return each.prompt.prompt == answer.prompt && each.prompt.expected == answer.expected;
    });
    if (found != prompts.end() && found->last.update == answer.update) return;  // the same prompt, and so the same answer
    if (found == prompts.end()) {
      if (prompts.size() == kMostPrompts) return;
      found = prompts.insert(found, {{answer.prompt, answer.expected, {}, 0}, 1, {}});
    }
    found->last = answer;
    auto& kept = found->prompt.answers;
    if (found->prompt.count++ % found->every != 0) return;
    kept.emplace_back(answer.update, answer.answer);
    if (kept.size() < kMostAnswers) return;
    for (std::size_t i = 0; 2 * i < kept.size(); ++i) kept[i] = kept[2 * i];
    kept.resize(kMostAnswers / 2);
    found->every *= 2;
  });
  for (Reading& each : prompts) {
    auto& kept = each.prompt.answers;
    if (kept.back().first != each.last.update) kept.emplace_back(each.last.update, each.last.answer);
    history.prompts.push_back(std::move(each.prompt));
  }
}

void read_abandoned(const Run& run, RunHistory& history) {
  constexpr std::size_t kMostParts = 8;  // the latest are drawn
  const std::vector<RunPart> parts = parts_of_run(run.path);
  history.abandoned_count = std::ssize(parts) - 1;
  const std::size_t count = parts.size() - 1, first = count > kMostParts ? count - kMostParts : 0;
  for (std::size_t i = first; i < count; ++i) {
    const PartLines& lines = parts[i].lines.back();
    AbandonedPart& part = history.abandoned.emplace_back();
    part.after = part.until = lines.after;
    Smoothed smoothed(history.half_life);
    read_metrics(lines.folder, [&](const Metrics& metrics) {
      part.until = metrics.update;
      if (std::isfinite(metrics.loss)) part.smooth.add(static_cast<double>(metrics.update), smoothed.add(metrics.loss));
    });
    read_evaluations(lines.folder, [&](const Evaluation& evaluation) {
      part.validation.add(static_cast<double>(evaluation.update), evaluation.loss);
    });
  }
}

}  // namespace

RunHistory read_history(const Run& run, double clip) {
  RunHistory history;
  read_evaluations(run.path, [&](const Evaluation& evaluation) {
    history.evaluation_seconds += std::isfinite(evaluation.seconds) ? evaluation.seconds : 0;
    ++history.evaluated_count;
    if (history.evaluations.size() < kMostEvaluations) history.evaluations.push_back({evaluation, {}});
  });
  const auto expected = static_cast<double>(run.last ? run.last->update : run.updates);
  history.half_life = std::clamp(std::round(expected / 100), 2.0, 2000.0);
  Smoothed smoothed(history.half_life);
  Sample seconds;
  std::size_t evaluated = 0;
  history.left_out = read_metrics(run.path, [&](const Metrics& metrics) {
    const auto x = static_cast<double>(metrics.update);
    ++history.updates;
    history.noise.add(metrics);
    history.loss.add(x, metrics.loss);
    std::optional<double> mean;
    if (std::isfinite(metrics.loss)) mean = smoothed.add(metrics.loss);
    if (mean) history.smooth.add(x, *mean);
    history.rate.add(x, metrics.learning_rate);
    history.norm.add(x, metrics.grad_norm);
    if (metrics.update_ratio > 0) history.ratio.add(x, metrics.update_ratio);
    if (metrics.loss_scale) history.scale.add(x, *metrics.loss_scale);
    if (clip > 0 && metrics.grad_norm > clip) ++history.clipped;
    if (metrics.spike) {
      ++history.spike_count;
      history.spikes.add(x, metrics.loss);
    }
    if (std::isfinite(metrics.seconds) && metrics.seconds >= 0) {
      history.seconds.add(x, metrics.seconds);
      history.update_seconds += metrics.seconds;
      seconds.add(metrics.seconds);
    }
    if (metrics.wait_seconds && std::isfinite(*metrics.wait_seconds)) {
      history.waits = true;
      history.wait_seconds += *metrics.wait_seconds;
    }
    history.trained += static_cast<double>(metrics.units), history.tokens += static_cast<double>(metrics.positions);
    while (evaluated < history.evaluations.size() && history.evaluations[evaluated].evaluation.update <= metrics.update) {
      history.evaluations[evaluated++].training = mean;
    }
  });
  history.median_seconds = seconds.quantile(0.5), history.slow_seconds = seconds.quantile(0.95);
  read_events_of(run, history);
  read_prompts(run, history);
  read_abandoned(run, history);
  return history;
}

}  // namespace plimsoll
