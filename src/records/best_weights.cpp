#include "records/best_weights.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/bounded_json.h"
#include "formats/weights_folder.h"
#include "records/run_reader.h"

namespace plimsoll {

using nlohmann::json;

json to_json(const Evaluation& evaluation) {
  json object = {{"update", evaluation.update},
                 {"samples", evaluation.samples},
                 {"loss", evaluation.loss},
                 {"loss_bits", bits_hex(evaluation.loss)},
                 {"units", evaluation.units}};
  if (const auto& accuracy = evaluation.accuracy) {
    object["accuracy"] = accuracy->top1;
    object["accuracy_top5"] = accuracy->top5;
  }
  return object;
}

std::optional<Evaluation> evaluation_from(const json& object) {
  const auto number = [&](const char* key) { return object.contains(key) && object[key].is_number(); };
  if (!number("update") || !object.contains("loss")) return {};
  Evaluation evaluation;
  evaluation.update = object["update"];
  evaluation.loss = number("loss") ? object["loss"].get<double>() : std::nan("");  // null: not finite
  if (number("samples")) evaluation.samples = object["samples"];
  if (number("units")) evaluation.units = object["units"];
  if (number("accuracy") && number("accuracy_top5")) evaluation.accuracy = {object["accuracy"], object["accuracy_top5"]};
  return evaluation;
}

std::string best_text(const BestWeights& best) {
  json object = to_json(best.evaluation);
  object["schema"] = "plimsoll.best/1";
  object["micro_batch"] = best.micro_batch;
  object["rounded"] = best.rounded;
  return object.dump(1) + "\n";
}

std::optional<BestWeights> read_best(const std::filesystem::path& folder) {
  try {
    const json object = read_json_object(folder / kBestFile, JsonLimits{}, "E-IO-READ");
    const std::optional<Evaluation> evaluation = evaluation_from(object);
    if (!evaluation) return {};
    return BestWeights{*evaluation, object.at("micro_batch"), object.at("rounded")};
  } catch (const std::exception&) {
    return {};
  }
}

std::string best_summary(const Evaluation& evaluation) {
  return fmt::format("update {}, validation loss {:.4f}{}", evaluation.update, evaluation.loss,
                     accuracy_text(evaluation.accuracy));
}

namespace {

// For a run whose best weights are not kept.
std::optional<std::string> note_of_last(const std::filesystem::path& run, const std::filesystem::path& weights) {
  const Run facts = read_run(run);
  if (!facts.best || facts.best->update == facts.updates) return {};
  return fmt::format("note: {} has the last weights of the run; those of its best evaluation ({}) are not kept", weights.string(),
                     best_summary(*facts.best));
}

}  // namespace

std::optional<std::string> best_note(const std::filesystem::path& path) {
  const std::filesystem::path folder = weights_folder(path);
  if (folder == path) return {};
  const std::optional<BestWeights> best = read_best(folder);
  if (!best) return note_of_last(path, folder);
  return fmt::format("note: the weights are the best of the run: {}{}; the last are in {}", best_summary(best->evaluation),
                     best->rounded ? " before they were rounded" : "", (path / "weights").string());
}

}  // namespace plimsoll
