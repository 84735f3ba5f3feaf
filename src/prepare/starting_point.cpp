#include "prepare/starting_point.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "config/config_keys.h"
#include "data/conversation.h"
#include "data/sample_maker.h"
#include "models/family.h"
#include "models/model_graph.h"
#include "prepare/asked.h"
#include "prepare/planning.h"
#include "prepare/requests.h"
#include "prepare/setup.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kLookedAt = 1000, kStep = 64, kLeastContext = 128, kMostContext = 4096;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// ---- what is there ----

// Of JSON samples. The lengths are in tokens, of those that were looked at.
struct SampleLook {
  std::int64_t samples = 0, looked_at = 0, untrained = 0;
  std::array<std::int64_t, kSampleFormats> formats{};
  std::int64_t median = 0, most = 0, longest = 0;  // most: 99 of 100 are no longer
};

bool is_json(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson";
}

// E-DATA-FORMAT where some files are JSON and others are not.
bool all_json(const DataPaths& data) {
  const std::vector<std::filesystem::path> files = data_files(data);
  const auto count = std::ranges::count_if(files, is_json);
  if (count > 0 && count < std::ssize(files)) {
    const auto other = std::ranges::find_if_not(files, is_json);
    throw data_error("E-DATA-FORMAT", other->string(), "other files of the data are JSON and this one is not",
                     "samples in JSON files, or a text");
  }
  return count > 0;
}

SampleLook look_at(const SampleRequest& request) {
  SampleLook look;
  std::vector<std::int64_t> lengths;
  show_samples(request, [&](const ChatSample&, const EncodedSample& encoded, const Tokenizer&) {
    lengths.push_back(std::ssize(encoded.tokens));
    look.untrained += encoded.trained_tokens() == 0 ? 1 : 0;
    return std::ssize(lengths) < kLookedAt;
  });
  look.looked_at = std::ssize(lengths);
  SampleReader reader(request.paths);
  while (reader.next()) ++look.samples;
  look.formats = reader.counts();
  std::ranges::sort(lengths);
  const auto at = [&](double share) {
    return lengths.empty() ? 0 : lengths[static_cast<std::size_t>(share * static_cast<double>(lengths.size() - 1))];
  };
  look.median = at(0.5);
  look.most = at(0.99);
  look.longest = at(1);
  return look;
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t i = std::ssize(text) - 3; i > 0; i -= 3) text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

std::string samples_text(const SampleLook& look) {
  std::vector<std::string> formats;
  for (std::size_t i = 0; i < kSampleFormats; ++i) {
    if (look.formats[i] > 0) formats.emplace_back(name_of(static_cast<SampleFormat>(i)));
  }
  return fmt::format("{} samples ({}). Of {}{}, half have at most {} tokens, 99 % at most {}, all at most {}.",
                     grouped(look.samples), fmt::join(formats, ", "), look.looked_at < look.samples ? "the first " : "these ",
                     grouped(look.looked_at), grouped(look.median), grouped(look.most), grouped(look.longest));
}

// ---- what fits ----

// How the model may be trained.
struct Method {
  std::string text;  // "LoRA over layers in bf16"
  std::string base;  // quantize.base
  Arguments arguments;
  bool adapter = true;
};

std::vector<Method> methods() {
  const auto lora = [](const char* text, const std::string& base) {
    return Method{text, base,
                  sets({"adapter.kind=lora", "adapter.rank=16", "adapter.alpha=32", "adapter.targets=all-linear",
                        "quantize.base=" + base})};
  };
  return {{"training all parameters", "", {}, false},
          lora("LoRA over the blocks of the file", "file"),
          lora("LoRA over layers in bf16", "bf16"),
          lora("LoRA over layers in NF4", "nf4")};
}

struct Chosen {
  Method method;
  std::int64_t context = 0;
  bool disk = false;
  Bytes floor;
};

class Chooser {
 public:
  // `disk`: that of the command line. `least`: of the contexts.
  Chooser(PlanningInput input, std::optional<std::string> disk, std::int64_t least)
      : input_(std::move(input)), disk_(std::move(disk)), least_context_(least) {}

  // The first that fits. Shorter samples come last, as they change most what is learned.
  Chosen choose(std::int64_t context) {
    for (;; context = std::max(least_context_, context / 2 / kStep * kStep)) {
      for (const bool disk : {false, true}) {
        if (disk && !disk_) continue;
        for (const Method& method : methods()) {
          const std::optional<Bytes> floor = floor_of(method, context, disk);
          if (floor && *floor <= budget()) return {method, context, disk, *floor};
        }
      }
      if (context <= least_context_) refuse(context);
    }
  }

  Bytes budget() const { return *input_.budget.memory; }
  // Of training all parameters in memory, with the first context.
  std::optional<Bytes> full() const { return full_; }

 private:
  // Nothing where the configuration refuses it: blocks of a file that has none.
  std::optional<Bytes> floor_of(const Method& method, std::int64_t context, bool disk) {
    Arguments arguments = both(sets({fmt::format("model.context={}", context)}), method.arguments);
    if (disk) arguments.insert(arguments.end(), {"--disk", *disk_});
    try {
      const Asked asked = with_arguments(input_, arguments);
      OpCatalogue catalogue = catalogue_of(input_.machine);
      const Bytes floor =
          PlanSpace(source_of(asked.config, asked.facts), asked.request, input_.machine.machine, catalogue).floor();
      if (floor.n == std::numeric_limits<std::int64_t>::max()) return {};
      if (!method.adapter && !full_) full_ = floor;
      least_ = std::min(least_.value_or(floor), floor);
      return floor;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::internal) throw;
      refused_ = error;
      return {};
    }
  }

  [[noreturn]] void refuse(std::int64_t context) const {
    if (!least_) throw *refused_;
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "--memory",
                fmt::format("nothing fits {}: the least that was found is {}, with LoRA and samples of {} tokens",
                            to_text(budget()), to_text(*least_), context),
                "a larger budget, or a disk",
                {fmt::format("--memory {}MiB", ceil_div(least_->n, kMiB.n)), "--disk /tmp/plimsoll:16GiB"});
  }

  PlanningInput input_;
  std::optional<std::string> disk_;
  std::int64_t least_context_;
  std::optional<Bytes> full_, least_;
  std::optional<Error> refused_;
};

// ---- what is written ----

// A hundredth of the samples, as a power of two from 4 to 32.
std::int64_t batch_for(std::int64_t samples) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(samples / 100, 4, 32))));
}

int epochs_for(std::int64_t samples) { return samples < 2000 ? 3 : samples < 20000 ? 2 : 1; }

std::string absolute_value(const std::filesystem::path& path) {
  return quoted(std::filesystem::absolute(path).lexically_normal().string());
}

std::string paths_value(const DataPaths& data) {
  std::vector<std::string> all;
  for (const std::filesystem::path& name : data.names) all.push_back(absolute_value(name));
  return all.size() == 1 ? all.front() : fmt::format("[{}]", fmt::join(all, ", "));
}

std::string context_remark(const std::optional<SampleLook>& look, std::int64_t context) {
  if (!look || look->longest - 1 <= context) return "tokens of a sample at most";
  if (look->most - 1 > context)
    return "tokens of a sample at most; data.too_long says what becomes of longer ones, which are many";
  return "99 % of the samples fit; data.too_long says what becomes of longer ones";
}

}  // namespace

StartingPoint starting_point(const StartingRequest& request, const std::function<void(const std::string&)>& say) {
  keep_freed_memory();
  const bool chat = all_json(request.data);
  const std::string init = absolute_value(request.model), train = paths_value(request.data);
  std::vector<std::string> known{"model.init=" + init, "data.train=" + train,
                                 fmt::format("data.format={}", chat ? "chat" : "auto"), "train.effective_batch=1",
                                 "optimizer.learning_rate=1e-4"};
  BudgetOptions budgets = request.budgets;
  const auto settings = [&] { return RunSettings{.file = {}, .in_file = {}, .typed = typed_settings(known, budgets)}; };
  const auto configured = [&] {
    RunSettings all = settings();
    return load_config(all);
  };

  Config config = configured();
  const ModelFacts facts = facts_of(config.model.config);
  const std::int64_t most = std::min(facts.positions, kMostContext), least = std::min(most, kLeastContext);
  std::optional<SampleLook> look;
  if (chat) look = look_at(sample_request(config, config.data.train, 0, {}));
  if (look && look->untrained == look->looked_at) {
    throw data_error("E-CHAT-UNTRAINED", request.data.text(), "no sample that was looked at has a token that is trained on",
                     "turns of an assistant, completions or texts");
  }
  const std::int64_t first = std::clamp(look ? round_up(look->most - 1, kStep) : std::int64_t{1024}, least, most);
  const bool packing = look && 2 * look->median <= first;
  const std::string held_out = !look || look->samples < 200 ? "" : look->samples < 2000 ? "5%" : "2%";
  known.push_back(fmt::format("model.context={}", first));
  if (packing) known.push_back("batch.packing=true");
  if (!held_out.empty()) known.push_back("data.validation=" + held_out);
  config = configured();

  PlanningInput input = planning_input(config, request.cache, say,
                                       {.machine = {}, .probe = request.probe, .runs_now = false, .tells_assumed = false});
  const std::string format = chat ? "chat" : input.data.train.format;
  const std::int64_t token_count = chat ? 0 : input.data.train.tokens;
  const std::int64_t samples = look ? look->samples : token_count / first;
  const std::int64_t batch = batch_for(samples), epochs = epochs_for(samples);
  const std::int64_t updates = std::max<std::int64_t>(1, samples * epochs / batch);
  known.push_back(fmt::format("train.effective_batch={}", batch));
  // Budgets of a disk are tried last.
  const std::optional<std::string> disk = std::exchange(budgets.disk, std::nullopt);
  input.source = ConfigSource{settings()};
  Chooser chooser(std::move(input), disk, least);
  const Chosen chosen = chooser.choose(first);

  StartingPoint start{
      .model = {},
      .data = look ? samples_text(*look) : fmt::format("{} tokens of format \"{}\".", grouped(token_count), format),
      .memory = {},
      .keys = {},
      .chat = chat};
  const Graph graph = build_evaluation_graph(config.model.config, 1, 1, 1).model.graph;
  start.model = fmt::format("{}, {} parameters, {} positions.", config.model.config.family().title,
                            grouped(parameter_count(graph)), grouped(facts.positions));
  start.memory = fmt::format("{} needs at least {} of {}", chosen.method.text, to_text(chosen.floor), to_text(chooser.budget()));
  if (chosen.method.adapter && chooser.full()) {
    start.memory += fmt::format("; training all parameters, {}", to_text(*chooser.full()));
  }
  start.memory += chosen.disk ? ", with the disk." : ".";

  const auto put = [&](std::string name, std::string value, std::string remark = {}) {
    start.keys.push_back({std::move(name), std::move(value), std::move(remark)});
  };
  put("seed", "1");
  put("model.init", init);
  put("model.context", std::to_string(chosen.context), context_remark(look, chosen.context));
  if (chosen.method.adapter) {
    put("adapter.kind", "\"lora\"", "small matrices beside each linear layer; the model itself stays as it is");
    put("adapter.rank", "16");
    put("adapter.alpha", "32");
    put("adapter.targets", "\"all-linear\"");
    put("quantize.base", quoted(chosen.method.base), "how the frozen layers are stored");
  }
  put("data.train", train);
  put("data.format", quoted(format));
  if (!held_out.empty()) put("data.validation", quoted(held_out), "held out; or a file of such samples");
  if (packing) put("batch.packing", "true", "short samples share a row");
  put("train.effective_batch", std::to_string(batch), "samples of an update; never changed by memory");
  put("train.epochs", std::to_string(epochs), fmt::format("about {} updates", grouped(updates)));
  if (!held_out.empty()) put("train.evaluate_every", std::to_string(std::max<std::int64_t>(1, updates / 10)), "updates");
  put("optimizer.learning_rate", chosen.method.adapter ? "2e-4" : "2e-5");
  put("schedule.name", "\"cosine\"");
  put("schedule.warmup", "\"3%\"");
  if (request.budgets.memory) put("memory.budget", quoted(*request.budgets.memory), "of the whole process");
  if (request.budgets.host_memory) put("memory.host_memory", quoted(*request.budgets.host_memory));
  if (chosen.disk) put("memory.disk", quoted(*disk));
  return start;
}

}  // namespace plimsoll
