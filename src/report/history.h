// The course of a run from its lines, thinned out for pictures, and the sums that the page tells.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "records/line_reader.h"
#include "records/noise_scale.h"
#include "records/run_reader.h"
#include "report/thinned.h"
#include "train/metrics.h"

namespace plimsoll {

struct EvaluatedThen {
  Evaluation evaluation;
  std::optional<double> training;  // the smoothed training loss then
};

// Events of one name.
struct ToldEvent {
  std::string name;
  std::int64_t count = 0, first = 0, last = 0;  // updates
  std::string text;                             // of the last one
};

// The answers to one held-out prompt, thinned out; the first and the last stay.
struct AnsweredPrompt {
  std::string prompt, expected;
  std::vector<std::pair<std::int64_t, std::string>> answers;  // by update
  std::int64_t count = 0;                                     // of all answers
};

// Updates that the run left behind when it went back to an earlier checkpoint.
struct AbandonedPart {
  std::int64_t after = 0, until = 0;  // updates
  Thinned smooth{200}, validation{200};
};

struct RunHistory {
  Thinned loss, smooth, rate, norm, ratio, scale, seconds, wait;
  Thinned spikes{60};
  std::int64_t spike_count = 0, clipped = 0, updates = 0;  // updates: lines
  std::vector<EvaluatedThen> evaluations;
  std::map<std::string, ToldEvent> events;
  std::vector<AnsweredPrompt> prompts;
  NoiseWindows noise;
  std::vector<AbandonedPart> abandoned;  // oldest first; those that are drawn
  std::int64_t abandoned_count = 0;
  LeftOut left_out;
  double half_life = 1;  // of the smoothing, in updates
  double update_seconds = 0, wait_seconds = 0, evaluation_seconds = 0, evaluated_count = 0;
  double trained = 0, tokens = 0;               // over the updates
  bool waits = false;                           // the lines tell the waiting
  double median_seconds = 0, slow_seconds = 0;  // of an update: median and 95th percentile
};

// `clip`: the greatest norm that is not scaled down; 0: none.
RunHistory read_history(const Run& run, double clip);

}  // namespace plimsoll
