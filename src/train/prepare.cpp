#include "train/prepare.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/bpe_vocabulary.h"
#include "formats/file.h"
#include "ops/cpu_catalogue.h"
#include "plan/build_plan.h"
#include "train/calibrate.h"
#include "train/child.h"
#include "train/planning.h"
#include "train/requests.h"

namespace plimsoll {
namespace {

using nlohmann::json;

TokenFilePlace place_of(const TokenFile& file) {
  return {file.file.path(), file.name, file.offset, file.tokens, file.bytes_per_token, file.vocab};
}

TokenFile open_place(const TokenFilePlace& place) {
  TokenFile file;
  file.file = File::open(place.path, "E-DATA-MISSING");
  file.name = place.name;
  file.offset = place.offset;
  file.tokens = place.tokens;
  file.bytes_per_token = place.bytes_per_token;
  file.vocab = place.vocab;
  return file;
}

json place_json(const TokenFilePlace& place) {
  return {{"path", place.path},
          {"name", place.name},
          {"offset", place.offset},
          {"tokens", place.tokens},
          {"width", place.bytes_per_token},
          {"vocab", place.vocab}};
}

TokenFilePlace place_from(const json& object) {
  return {object.at("path"), object.at("name"), object.at("offset"), object.at("tokens"), object.at("width"), object.at("vocab")};
}

json optional_bytes(const std::optional<Bytes>& bytes) { return bytes ? json(bytes->n) : json(nullptr); }

json read_plan(const std::filesystem::path& path) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  const auto refuse = [&](const std::string& why) {
    return config_error("E-PLAN-FILE", path.string(), why, "a file that `plimsoll plan --out` wrote",
                        {"plimsoll plan CONFIG --out plan.json"});
  };
  std::string text;
  try {
    text = read_text(path, kMostBytes, "E-PLAN-FILE");
  } catch (const Error& error) {
    throw refuse(error.message);
  }
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("record")) throw refuse("it is not a plan");
  return object;
}

// The bounds were found when the plan was made; a replay does not search.
PlanningResult replay(const Config& config, const PlanningInput& input, const std::filesystem::path& path) {
  const json plan = read_plan(path);
  PlanningResult result = replay_plan(config, input, record_from_json(plan.at("record")));
  json object = json::parse(result.text);
  if (const json bounds = plan.value("bounds", json()); bounds.is_object()) object["bounds"].update(bounds);
  result.text = object.dump();
  return result;
}

void save_vocabulary(const Config& config, const std::filesystem::path& folder) {
  if (folder.empty() || config.data.vocabulary.empty()) return;
  std::filesystem::create_directories(folder);
  BpeVocabulary::load(config.data.vocabulary).save(folder);
}

std::string prepare_in_child(const Config& config, const PrepareOptions& options, const Say& say) {
  PlanningInput input = planning_input(config, options.cache, say);
  if (options.micro_batch) input.request.micro_batch = options.micro_batch;
  json result = {{"data_hash", options.hash_data ? content_hash(input.data.train) : ""},
                 {"train", place_json(place_of(input.data.train))},
                 {"validation", nullptr},
                 {"machine", machine_text(input.machine.machine)},
                 {"budget", optional_bytes(input.budget.memory)}};
  if (input.data.validation) result["validation"] = place_json(place_of(*input.data.validation));
  const PlanningResult planned =
      options.plan_file.empty() ? plan_with_extras(config, input, PlanExtras{}) : replay(config, input, options.plan_file);
  result["plan"] = planned.text;
  if (planned.plan) {
    result["record"] = to_json(record_of(*planned.plan));
    result["floor"] = planned.plan->floor.n;
    result["knee"] = planned.plan->knee.n;
    result["ceiling"] = planned.plan->ceiling.n;
    save_vocabulary(config, options.vocabulary_to);
  }
  return result.dump();
}

}  // namespace

DataFiles open_data(const Prepared& prepared) {
  DataFiles files{open_place(prepared.train), {}};
  if (prepared.validation) files.validation = open_place(*prepared.validation);
  return files;
}

std::variant<Prepared, Refused> prepare_training(const Config& config, const PrepareOptions& options, const Say& say) {
  const std::string text = run_in_child([&] { return prepare_in_child(config, options, say); });
  const json result = json::parse(text);
  if (!result.contains("record")) return Refused{result.at("plan").get<std::string>()};
  Prepared prepared;
  prepared.record = record_from_json(result.at("record"));
  prepared.machine = machine_from(result.at("machine").get<std::string>());
  prepared.train = place_from(result.at("train"));
  if (!result.at("validation").is_null()) prepared.validation = place_from(result.at("validation"));
  prepared.data_hash = result.at("data_hash");
  prepared.plan_text = result.at("plan").get<std::string>();
  prepared.budget = plan_budget(config);
  if (!result.at("budget").is_null()) prepared.budget.memory = Bytes{result.at("budget")};
  prepared.floor = Bytes{result.at("floor")};
  prepared.knee = Bytes{result.at("knee")};
  prepared.ceiling = Bytes{result.at("ceiling")};
  return prepared;
}

Plan rebuild_plan(const Config& config, const TrainingGraph& model, const Prepared& prepared) {
  CpuCatalogue catalogue({}, {});
  Plan plan = build_plan(model.graph, find_blocks(model.graph), prepared.record.decisions, plan_request(config), prepared.machine,
                         catalogue, &prepared.record.offsets);
  if (plan.plan_hash != prepared.record.plan_hash) {
    throw Error(ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", "plan",
                fmt::format("this process would run plan {}, not {}", plan.plan_hash, prepared.record.plan_hash),
                "the libraries, threads and instruction set that were planned for", {"plimsoll plan CONFIG --out plan.json"});
  }
  return plan;
}

}  // namespace plimsoll
