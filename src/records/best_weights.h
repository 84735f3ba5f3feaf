// Evaluations as JSON objects, and the file best.json beside the best weights of a run: the evaluation that chose them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "train/metrics.h"

namespace plimsoll {

// An evaluation as in eval.jsonl, without its seconds.
nlohmann::json to_json(const Evaluation& evaluation);
// Nothing if it has no update or no loss. Lines of earlier versions have less.
std::optional<Evaluation> evaluation_from(const nlohmann::json& object);

inline constexpr const char* kBestFile = "best.json";

struct BestWeights {
  Evaluation evaluation;
  std::int64_t micro_batch = 0;  // samples of a pass of the evaluation
  bool rounded = false;          // saving rounded the weights that were evaluated
};

std::string best_text(const BestWeights& best);
// Nothing if the folder holds no such file, or another one.
std::optional<BestWeights> read_best(const std::filesystem::path& folder);
// A line for people, if the path is a run: whether weights_folder() opens its best weights.
std::optional<std::string> best_note(const std::filesystem::path& path);
// "update 40, validation loss 1.2345, accuracy 91.25 % (top 5 99.60 %)"
std::string best_summary(const Evaluation& evaluation);

}  // namespace plimsoll
