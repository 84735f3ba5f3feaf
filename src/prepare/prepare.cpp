#include "prepare/prepare.h"

#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "adapters/peft_folder.h"
#include "base/child.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/new_folder.h"
#include "formats/tokenizer_folder.h"
#include "models/family.h"
#include "models/gguf.h"
#include "models/pixel_norm.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "prepare/answers.h"
#include "prepare/epochs.h"
#include "prepare/plan_file.h"
#include "prepare/planning.h"
#include "prepare/requests.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json to_json(const std::optional<RaggedWindows>& windows) {
  return windows ? json{windows->rows, windows->most_rows, windows->units} : json(nullptr);
}
std::optional<RaggedWindows> ragged_from(const json& object) {
  if (object.is_null()) return {};
  return RaggedWindows{object.at(0), object.at(1), object.at(2)};
}

// The bounds were found when the plan was made; a replay does not search.
PlanningResult replay(const Config& config, const PlanningInput& input, const std::filesystem::path& path) {
  const json plan = read_plan(path.string());
  if (!plan.contains("record")) throw not_a_plan(path.string(), "it has no record to replay");
  PlanningResult result = replay_plan(config, input, record_from_json(plan.at("record")));
  json object = json::parse(result.text);
  if (const json bounds = plan.value("bounds", json()); bounds.is_object()) object["bounds"].update(bounds);
  result.text = object.dump();
  return result;
}

// A resumed run reads the adapter's configuration here if the folder of its adapter is gone.
void save_adapter_config(const Config& config, const PrepareOptions& options) {
  if (!config.adapter.active() || options.resumes) return;
  create_folder(options.weights_folder);
  const InferenceGraph graph = build_evaluation_graph(config.model.config, 1, {}, 1, config.adapter);
  write_file_atomically(options.weights_folder / kAdapterConfig,
                        peft_config_text(graph.model.graph, config.model.config, config.adapter, config.model.init));
}

// The normalisation of pixels, for other programs: the file of the model's folder with the numbers of this training. Folders of
// timm have them in config.json.
void save_pixel_norm(const Config& config, const std::filesystem::path& folder) {
  const std::filesystem::path& init = config.model.init;
  const std::optional<PixelNorm> norm = pixels_of(config);
  if (!norm) return;
  create_folder(folder);
  if (!init.empty() && is_there(init / kPreprocessor)) copy_whole(init / kPreprocessor, folder / kPreprocessor);
  if (init.empty() || *norm != pixel_norm_of(init)) {
    write_preprocessor(*norm, facts_of(config.model.config).image_size, folder);
  }
}

// Companion files of this run's weights, from the folders that the run begins with, which may be gone when it ends. A resumed run
// has its files already.
void save_companions(const Config& config, const PrepareOptions& options) {
  const std::filesystem::path &folder = options.weights_folder, &init = config.model.init;
  if (folder.empty()) return;
  save_adapter_config(config, options);
  const std::filesystem::path& tokens = config.data.vocabulary.empty() ? init : config.data.vocabulary;
  std::error_code error;
  const bool replace = !options.resumes;
  if (replace) std::filesystem::remove(folder / "config.json", error);
  if (replace) save_pixel_norm(config, folder);
  if (init.empty() && tokens.empty()) return;
  create_folder(folder);
  const auto has = [&](const std::filesystem::path& from, const char* name) {
    return std::filesystem::exists(from / name, error);
  };
  if (is_gguf(tokens)) {
    if (is_there(tokens)) write_gguf_tokenizer(GgufFile::open(tokens), folder, replace);
  } else if (!tokens.empty()) {
    copy_files(tokens, folder, tokenizer_files(), replace);
    if (!has(tokens, "vocab.json") && has(tokens, "encoder.json") && (replace || !has(folder, "vocab.json"))) {
      copy_whole(tokens / "encoder.json", folder / "vocab.json");
      copy_whole(tokens / "vocab.bpe", folder / "merges.txt");
    }
  }
  // Conversations use the template of the training.
  constexpr std::int64_t kMostTemplate = 1 << 20;
  const std::filesystem::path &own = config.data.chat_template, kept = folder / "chat_template.jinja";
  if (data_kind(config).renders && !own.empty() && (replace || !is_there(kept))) {
    write_file_atomically(kept, read_text(own, kMostTemplate, "E-CHAT-TEMPLATE"));
  }
  if (init.empty()) return;
  if (is_gguf(init)) {
    if (is_there(init)) write_gguf_config(GgufFile::open(init), folder, replace);
    return;
  }
  copy_files(init, folder, generation_files(), replace);
  copy_files(init, folder, std::array{std::string_view("config.json")}, replace);
}

std::string prepare_in_child(const Config& config, const PrepareOptions& options, bool floors_alone, const Say& say) {
  // A replayed plan belongs to the machine as it was measured for the plan.
  const bool replays = !options.plan_file.empty();
  const Say first = [&](const std::string& line) {
    if (!floors_alone) say(line);  // the first child has said the same
  };
  PlanningInput input = planning_input(config, options.cache, first,
                                       {.machine = options.machine,
                                        .probe = options.probe,
                                        .tokens = options.tokens,
                                        .begins = !options.resumes,
                                        .repeat = replays || options.resumes ? Repeat::never : Repeat::when_idle,
                                        .share = options.share,
                                        .peers = options.peers});
  input.request.floor_only = floors_alone;
  input.runs = options.runs;
  if (!options.machine_file.empty()) write_machine_file(options.machine_file, input.machine);
  if (options.settings) input.source = {.settings = *options.settings};
  if (options.micro_batch) input.request.micro_batch = options.micro_batch;
  json result = {{"data_hash", input.data.train->content_hash()},
                 {"train", input.data.train->place()},
                 {"validation", nullptr},
                 {"ragged", to_json(input.facts.ragged)},
                 {"machine", machine_text(input.machine.machine)},
                 {"algorithms", input.machine.algorithms},
                 {"budget", bytes_or_null(input.budget.memory)}};
  if (input.data.validation) result["validation"] = input.data.validation->place();
  PlanExtras extras;
  extras.levers = options.levers;
  extras.decided = [&](const json& plan) {
    if (options.decided && plan.at("status") != "fits") options.decided(plan);
  };
  const PlanningResult planned = replays ? replay(config, input, options.plan_file) : plan_with_extras(config, input, extras);
  result["plan"] = planned.text;
  if (planned.plan) {
    result["prompts"] = to_json(planned.prompts);
    result["record"] = to_json(record_of(*planned.plan));
    save_companions(config, options);
  }
  return result.dump();
}

}  // namespace

std::variant<Prepared, Refused> prepare_training(const Config& config, const PrepareOptions& options, const Say& say) {
  return read_preparation(config, options, preparation(config, options, say));
}

std::string preparation(const Config& config, const PrepareOptions& options, const Say& say) {
  const MemoryLimit limit(planning_memory(config, {.machine = options.machine}));
  return plan_in_child([&](bool floors_alone) { return prepare_in_child(config, options, floors_alone, say); }, options.stopped);
}

std::string preparation_for_others(const std::string& text) {
  json result = json::parse(text);
  if (!result.contains("record")) return {};
  result["plan"] = "";
  result["record"].erase("offsets");
  return result.dump();
}

namespace {

json lay_out(const Config& config, const PrepareOptions& options, json result) {
  const DataFiles data = open_data(config, options.cache, options.tokens);
  if (const std::string hash = data.train->content_hash(); hash != result.at("data_hash")) {
    throw config_error("E-RANK-MISMATCH", "data",
                       fmt::format("rank {} has data with the hash {}, rank 0 with {}", options.share.rank, hash,
                                   result.at("data_hash").get<std::string>()),
                       "the same files of data for every rank");
  }
  result["train"] = data.train->place();
  if (data.validation) result["validation"] = data.validation->place();
  json record = result.at("record");
  record["offsets"] = json::array();
  const PlanDecisions decisions = record_from_json(record).decisions;
  const Machine machine = machine_from(result.at("machine").get<std::string>());
  const std::optional<RaggedWindows> ragged = ragged_from(result.at("ragged"));
  DataFacts facts = facts_of(config, data, ragged);
  facts.share = options.share;
  facts.zero = decisions.zero;
  PlanRequest request = plan_request(config, ragged);
  request.ranks = options.share.ranks;
  const TrainingGraph model = build_training_graph(config, facts, decisions.micro_batch);
  OpCatalogue catalogue({}, {}, kernels_of(machine), result.at("algorithms"));
  const Plan plan = build_plan(model.graph, find_units(model.graph), decisions, request, machine, catalogue, nullptr);
  const Bytes budget = result.at("budget").is_null() ? plan.process : Bytes{result.at("budget")};
  if (plan.process > budget) {
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", fmt::format("rank {}", options.share.rank),
                fmt::format("its plan needs {}, the budget is {}", to_text(plan.process), to_text(budget)),
                "a budget that holds the plan of each rank", {Change("memory.budget", plan.process.n)});
  }
  result["record"] = to_json(record_of(plan));
  return result;
}

}  // namespace

std::string preparation_of_rank(const Config& config, const PrepareOptions& options, const std::string& text) {
  const MemoryLimit limit(planning_memory(config));
  return run_in_child([&] { return lay_out(config, options, json::parse(text)).dump(); }, options.stopped);
}

std::variant<Prepared, Refused> read_preparation(const Config& config, const PrepareOptions& options, const std::string& text) {
  const json result = json::parse(text);
  if (!result.contains("record")) return Refused{result.at("plan").get<std::string>()};
  Prepared prepared;
  prepared.record = record_from_json(result.at("record"));
  prepared.machine = machine_from(result.at("machine").get<std::string>());
  prepared.algorithms = result.at("algorithms");
  prepared.data.train = data_set_at(result.at("train"));
  if (!result.at("validation").is_null()) prepared.data.validation = data_set_at(result.at("validation"));
  prepared.data_hash = result.at("data_hash");
  prepared.ragged = ragged_from(result.at("ragged"));
  prepared.plan_text = result.at("plan").get<std::string>();
  prepared.budget = plan_budget(config);
  if (!result.at("budget").is_null()) prepared.budget.memory = Bytes{result.at("budget")};
  prepared.share = options.share;
  prepared.prompts = prompts_from(result.at("prompts"));
  return prepared;
}

DataFacts facts_of(const Config& config, const Prepared& prepared) {
  DataFacts facts = facts_of(config, prepared.data, prepared.ragged);
  facts.share = prepared.share;
  facts.zero = prepared.record.decisions.zero;
  facts.answers = shape_of(prepared.record.decisions.answers);
  return facts;
}

Plan rebuild_plan(const Config& config, const TrainingGraph& model, const Prepared& prepared, const MachineRecord* machine) {
  OpCatalogue catalogue =
      machine != nullptr ? catalogue_of(*machine) : OpCatalogue({}, {}, kernels_of(prepared.machine), prepared.algorithms);
  PlanRequest request = plan_request(config, prepared.ragged);
  request.ranks = prepared.share.ranks;
  Plan plan = build_plan(model.graph, find_units(model.graph), prepared.record.decisions, request, prepared.machine, catalogue,
                         &prepared.record.offsets);
  if (plan.plan_hash != prepared.record.plan_hash) {
    throw Error(ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", "plan",
                fmt::format("this process would run plan {}, not {}", plan.plan_hash, prepared.record.plan_hash),
                "the libraries, threads and instruction set that were planned for", {new_plan()});
  }
  return plan;
}

void require_algorithms(const std::map<std::string, std::string>& planned, const std::map<std::string, std::string>& bound) {
  for (const auto& [kernel, algorithm] : bound) {
    const auto found = planned.find(kernel);
    if (found == planned.end() || found->second == algorithm) continue;
    throw Error(
        ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", kernel,
        fmt::format("the library chose algorithm {}, not {}, which the plan names", algorithm, found->second),
        "the library and the GPU that were measured",
        {Remedy::of_command("machine CONFIG", {{"machine.device", "cuda"}, {"machine.unverified", "true"}, {"command.json"}})});
  }
}

}  // namespace plimsoll
