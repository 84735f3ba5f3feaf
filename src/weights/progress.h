// The progress of a training, and the facts that a continuation must share.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "weights/origin.h"

namespace plimsoll {

// The state of loss scaling (train/loss_scale.h).
struct LossScaleState {
  static constexpr std::size_t kRecent = 200;  // windows
  double scale = 65536;                        // of the next window, a power of two
  std::int64_t good_samples = 0;               // since the scale changed or a window overflowed
  std::int64_t overflows = 0;                  // windows with an overflow since the scale changed
  std::int64_t low_windows = 0;                // consecutive windows that overflowed and ended below scale 1
  std::int64_t skipped = 0;                    // windows skipped in the whole run
  std::bitset<kRecent> recent;                 // the skipped ones among the latest windows
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

struct Progress {
  std::int64_t updates = 0;
  std::int64_t samples = 0;            // consumed
  std::int64_t position = 0;           // of the next sample in the order
  std::int64_t optimizer_updates = 0;  // of the optimizer's state; more than `updates` in a fork
  std::int64_t units = 0;
  double seconds = 0;
  double loss = 0;  // of the last update

  std::int64_t micro_batch = 0, accumulation = 0;
  std::int64_t seed = 0;
  std::string data_hash, config_hash;
  std::string optimizer;                     // the name in configurations; empty: not recorded
  std::optional<LossScaleState> loss_scale;  // of fp16
  Origin origin;
};

// The members of a manifest. Format 1 has them as a tensor, with fewer of them.
nlohmann::json to_json(const Progress& progress);
// Throws a std::exception for a missing member, or for a number that no run has.
Progress progress_from(const nlohmann::json& object);

}  // namespace plimsoll
