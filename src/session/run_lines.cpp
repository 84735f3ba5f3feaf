#include "session/run_lines.h"

#include <nlohmann/json.hpp>

#include "base/visit.h"
#include "records/run_folder.h"

namespace plimsoll {

using nlohmann::json;

void RunLines::append(const Overflow& overflow) const {
  json event = {{"event", overflow.skipped ? "skipped" : "overflow"},
                {"update", overflow.update},
                {"loss_scale", overflow.scale},
                {"micro_steps", overflow.micro}};
  if (overflow.skipped) {
    json samples = json::array();
    for (const SampleRef& sample : overflow.samples) samples.push_back({sample.epoch, sample.sample});
    event["samples"] = samples;
  }
  folder_.append_event(event);
}

void RunLines::append(const Warned& warned) const {
  const GroupWarning& warning = warned.warning;
  folder_.append_event({{"event", warning.reason}, {"update", warned.update}, {"names", warning.names}, {"most", warning.most}});
}

void RunLines::append(const ValidationRises& rises) const {
  folder_.append_event({{"event", "VALIDATION_RISES"},
                        {"update", rises.update},
                        {"loss", rises.rise.loss},
                        {"best_update", rises.rise.best_update},
                        {"best_loss", rises.rise.best_loss}});
}

void RunLines::append(const NotSaved& not_saved) const {
  try {
    folder_.append_event({{"event", "NOT_SAVED"},
                          {"update", not_saved.update},
                          {"what", not_saved.what},
                          {"code", not_saved.error.code},
                          {"message", not_saved.error.message}});
  } catch (const Error&) {  // most likely on the same full disk
  }
}

// An event before the first update: a new run drops it with its lines.
void RunLines::append_data() const {
  if (data_ == SampleCounts()) return;
  json event = {{"event", "data"}, {"update", 1}};
  for (const auto& [name, count] : kSampleCounts) event[name] = data_.*count;
  folder_.append_event(event);
}

void RunLines::see(const Event& event) {
  match(
      event, [&](const Planned& planned) { data_ = planned.train.counts(); },
      [&](const Continues& continues) {
        folder_.open_metrics(continues.updates);
        folder_.open_evaluations(continues.updates);
        folder_.open_events(continues.updates);
        folder_.open_answers(continues.updates);
        if (continues.updates == 0) append_data();
      },
      [&](const Updated& updated) { folder_.append(updated.metrics); },
      [&](const Overflowed& overflowed) { append(overflowed.overflow); }, [&](const Warned& warned) { append(warned); },
      [&](const ValidationRises& rises) { append(rises); }, [&](const NotSaved& not_saved) { append(not_saved); },
      [&](const RateFell& fell) {
        folder_.append_event({{"event", "PLATEAU"}, {"update", fell.update}, {"learning_rate", fell.rate}});
      },
      [&](const Evaluated& evaluated) { folder_.append(evaluated.evaluation); },
      [&](const Answered& answered) { folder_.append(answered.answers); }, [&](const Saving&) { folder_.sync(); },
      [](const auto&) {});
}

}  // namespace plimsoll
