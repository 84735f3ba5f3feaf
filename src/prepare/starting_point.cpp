#include "prepare/starting_point.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ceil_div.h"
#include "base/disk_folder.h"
#include "base/error.h"
#include "base/text.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "data/chat_encoder.h"
#include "data/conversation.h"
#include "data/conversations.h"
#include "data/recurrence.h"
#include "data/sample_maker.h"
#include "formats/utf8.h"
#include "models/family.h"
#include "models/model_graph.h"
#include "prepare/changed_config.h"
#include "prepare/data_files.h"
#include "prepare/planning.h"
#include "prepare/requests.h"
#include "prepare/training_graph.h"
#include "settings/setting.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kLookedAt = 1000, kStep = 64, kLeastContext = 128, kMostContext = 4096;
constexpr std::int64_t kFewestHeldOut = 50;  // least number of samples for which a share becomes validation
constexpr std::size_t kShares = 3;           // number of tried shares: one, two and three times the usual one

// ---- model and data ----

// Statistics of the JSON samples that were read. Lengths are in tokens.
struct SampleLook {
  std::int64_t samples = 0, looked_at = 0, untrained = 0;
  std::array<std::int64_t, kSampleFormats> formats{};
  std::int64_t median = 0, most = 0, longest = 0;  // most: the 99th percentile
  std::int64_t trained = 0;                        // training samples: not held out, with at least one trained token
  std::vector<std::int64_t> split;                 // lengths of training samples that are split if they are too long
  std::string held_out;                            // share for validation ("5%"); empty: none
  Recurring recurring;                             // recurrence of the held-out samples

  // The number of training samples from all samples.
  std::int64_t samples_of(std::int64_t context) const {
    std::int64_t pieces = trained;
    for (const std::int64_t length : split) pieces += std::max<std::int64_t>(1, ceil_div(length - 1, context)) - 1;
    return std::max<std::int64_t>(1, samples * pieces / looked_at);
  }
};

// A sample that was read.
struct LookedAt {
  std::int64_t tokens = 0;
  bool splits = false;
  std::vector<std::uint64_t> answers;    // empty: the sample trains nothing
  std::array<bool, kShares> held_out{};  // by share
};

// Equal samples stay together, so the split of a small set is a matter of chance. If a share holds out less than half of the
// usual number, the next larger share is tried. Nothing for samples that cannot be split.
std::optional<std::size_t> share_of(const std::vector<LookedAt>& looked, double usual) {
  for (std::size_t share = 0; share < kShares; ++share) {
    std::array<std::int64_t, 2> sides{};
    for (const LookedAt& each : looked) sides[each.held_out[share] ? 1 : 0] += each.answers.empty() ? 0 : 1;
    if (sides[0] > 0 && static_cast<double>(sides[1]) >= usual / 2 * static_cast<double>(looked.size())) return share;
  }
  return {};
}

Recurring recurring_in(const std::vector<LookedAt>& looked, std::size_t share) {
  Recurrence recurrence;
  for (const bool held_out : {true, false}) {
    for (const LookedAt& each : looked) {
      if (each.answers.empty() || each.held_out[share] != held_out) continue;
      held_out ? recurrence.add_validation(each.answers) : recurrence.see_training(each.answers);
    }
  }
  return {recurrence.samples(), recurrence.recurring()};
}

bool is_json(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson";
}

// E-DATA-FORMAT if some files are JSON and others are not.
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

// `holds_out`: a share of the samples may become validation.
SampleLook look_at(const SampleRequest& request, bool holds_out) {
  SampleLook look;
  SampleReader reader(request.paths);
  while (reader.next()) ++look.samples;
  look.formats = reader.counts();
  const double usual = look.samples < 200 ? 0.1 : look.samples < 2000 ? 0.05 : 0.02;
  std::vector<std::int64_t> lengths;
  std::vector<LookedAt> looked;
  show_samples(request, [&](const ChatSample& sample, const EncodedSample& encoded, const Tokenizer&) {
    lengths.push_back(std::ssize(encoded.tokens));
    LookedAt each{.tokens = lengths.back(), .answers = answers_of(encoded.tokens, encoded.trained)};
    each.splits = request.too_long == LongSamples::split || (request.too_long == LongSamples::automatic && !sample.is_chat());
    for (std::size_t i = 0; i < kShares; ++i) {
      each.held_out[i] = is_held_out(encoded.tokens, usual * static_cast<double>(i + 1));
    }
    looked.push_back(std::move(each));
    return std::ssize(lengths) < kLookedAt;
  });
  look.looked_at = std::ssize(lengths);
  const auto share = holds_out && look.samples >= kFewestHeldOut ? share_of(looked, usual) : std::nullopt;
  if (share) {
    look.held_out = fmt::format("{:g}%", 100 * usual * static_cast<double>(*share + 1));
    look.recurring = recurring_in(looked, *share);
  }
  for (const LookedAt& each : looked) {
    look.untrained += each.answers.empty() ? 1 : 0;
    if (each.answers.empty() || (share && each.held_out[*share])) continue;
    ++look.trained;
    if (each.splits) look.split.push_back(each.tokens);
  }
  std::ranges::sort(lengths);
  const auto at = [&](double part) { return lengths[static_cast<std::size_t>(part * static_cast<double>(lengths.size() - 1))]; };
  look.median = at(0.5);
  look.most = at(0.99);
  look.longest = at(1);
  return look;
}

std::string counted(std::int64_t number, const char* what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

std::string samples_text(const SampleLook& look) {
  std::vector<std::string> formats;
  for (std::size_t i = 0; i < kSampleFormats; ++i) {
    if (look.formats[i] > 0) formats.emplace_back(name_of(static_cast<SampleFormat>(i)));
  }
  const std::string all = fmt::format("{} ({})", counted(look.samples, "sample"), fmt::join(formats, ", "));
  if (look.samples == 1) return fmt::format("{} of {}.", all, counted(look.longest, "token"));
  const std::string of = look.looked_at < look.samples ? fmt::format("Of the first {}", grouped(look.looked_at)) : "Of these";
  return fmt::format("{}. {}, half have at most {}, 99 % at most {}, all at most {}.", all, of, counted(look.median, "token"),
                     grouped(look.most), grouped(look.longest));
}

// ---- the search for a method ----

// A way to train the model: its keys in addition to the keys common to all ways.
struct Method {
  std::string text;  // "LoRA over layers in bf16"
  std::vector<StartingKey> keys;

  bool adapter() const { return !keys.empty(); }
};

std::vector<Method> methods() {
  const auto lora = [](const char* text, const char* base) {
    return Method{text,
                  {{"adapter.kind", toml_text("lora"), "small matrices for each linear layer; the model itself does not change"},
                   {"adapter.rank", "16", ""},
                   {"adapter.alpha", "32", ""},
                   {"adapter.targets", toml_text("all-linear"), ""},
                   {"quantize.base", toml_text(base), "how the frozen layers are stored"}}};
  };
  return {{"training all parameters", {}},
          lora("LoRA over the blocks of the file", "file"),
          lora("LoRA over layers in bf16", "bf16"),
          lora("LoRA over layers in NF4", "nf4")};
}

Changes changes_of(const std::vector<StartingKey>& keys) {
  Changes changes;
  for (const StartingKey& key : keys) changes.emplace_back(key.name, key.value);
  return changes;
}

struct Chosen {
  Method method;
  std::int64_t context = 0;
  bool disk = false;
  Bytes floor;
};

class Chooser {
 public:
  // `disk`: the typed budget. `least`: the shortest context.
  Chooser(PlanningInput input, std::optional<std::string> disk, std::int64_t least)
      : input_(std::move(input)), disk_(std::move(disk)), least_context_(least) {}

  // The first method that fits. Shorter samples come last, as they change the results most.
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
  // The floor of training all parameters in memory, with the first context.
  std::optional<Bytes> full() const { return full_; }

 private:
  // Nothing if the configuration refuses the method, such as blocks of a file for a file without blocks.
  std::optional<Bytes> floor_of(const Method& method, std::int64_t context, bool disk) {
    Changes changes = both({{"model.context", context}}, changes_of(method.keys));
    if (disk) changes.emplace_back("memory.disk", *disk_);
    try {
      const ChangedConfig changed = with_changes(input_, changes);
      OpCatalogue catalogue = catalogue_of(input_.machine);
      const Bytes floor =
          PlanSpace(source_of(changed.config, changed.facts), changed.request, input_.machine.machine, catalogue).floor();
      if (floor.n == std::numeric_limits<std::int64_t>::max()) return {};
      if (!method.adapter() && !full_) full_ = floor;
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
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "memory.budget",
                fmt::format("nothing fits {}: the least that was found is {}, with LoRA and samples of {} tokens",
                            to_text(budget()), to_text(*least_), context),
                disk_ ? "a larger budget" : "a larger budget, or a disk", remedies());
  }
  Remedies remedies() const {
    Remedies all{Change("memory.budget", fmt::format("{}MiB", ceil_div(least_->n, kMiB.n)))};
    if (!disk_) all.push_back(advised_disk("16GiB"));
    return all;
  }

  PlanningInput input_;
  std::optional<std::string> disk_;
  std::int64_t least_context_;
  std::optional<Bytes> full_, least_;
  std::optional<Error> refused_;
};

// ---- the values that are written ----

// A hundredth of the samples, as a power of two from 4 to 32.
std::int64_t batch_for(std::int64_t samples) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(samples / 100, 4, 32))));
}

int epochs_for(std::int64_t samples) { return samples < 2000 ? 3 : samples < 20000 ? 2 : 1; }

std::string absolute_value(const std::filesystem::path& path) {
  return toml_text(std::filesystem::absolute(path).lexically_normal().string());
}

std::string paths_value(const DataPaths& data) {
  std::vector<std::string> all;
  for (const std::filesystem::path& name : data.names) all.push_back(absolute_value(name));
  return all.size() == 1 ? all.front() : fmt::format("[{}]", fmt::join(all, ", "));
}

std::string context_remark(const std::optional<SampleLook>& look, std::int64_t context) {
  if (!look || look->longest - 1 <= context) return "tokens of a sample at most";
  if (look->most - 1 > context) return "tokens of a sample at most; data.too_long is for longer ones, which are many";
  return "99 % of the samples fit; data.too_long is for longer ones";
}

// ---- the request ----

void check_names(const StartingRequest& request) {
  std::vector<std::string> words{request.model.string()};
  for (const std::filesystem::path& name : request.data.names) words.push_back(name.string());
  for (const Setting& setting : request.typed) words.push_back(setting.text);
  for (const Setting& setting : request.budgets) words.push_back(setting.text);
  for (const std::string& word : words) {
    if (utf8_valid_prefix(word) == word.size()) continue;
    throw config_error("E-USAGE", word, "the name is not UTF-8, and a configuration must be", "a name in UTF-8");
  }
}

// The typed keys of the data, and model.head, which follows from their classes.
struct Given {
  std::vector<std::string_view> keys;
  Config config;  // with these keys alone

  bool has(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }
};

Given given_by(const std::vector<Setting>& typed) {
  Given given;
  std::vector<std::string> notes;
  ConfigFaults faults;
  for (const KeySetting& one : find_keys(typed, notes, faults)) {
    faults.attempt([&] {
      if (section_of(one.key->name) != "data" && one.key->name != "model.head") {
        throw config_error("E-USAGE", one.setting.where, fmt::format("init does not use {}", one.setting.name),
                           "keys of the data, such as data.template, or model.head; change any other key in the file that init "
                           "prints");
      }
      one.set(given.config, one.setting);
      given.keys.push_back(one.key->name);
    });
  }
  faults.check();
  return given;
}

void check_there(const DataPaths& data) {
  const std::optional<std::filesystem::path> missing = first_missing(data);
  if (missing)
    throw data_error("E-DATA-MISSING", missing->string(), "there is no such file or folder", "text, tokens or JSON samples");
}

// The keys that are decided so far. They are planned with, and written at the end.
class Decided {
 public:
  explicit Decided(const StartingRequest& request) : request_(request) {}

  void put(std::string name, std::string value, std::string remark = {}) {
    const auto known = std::ranges::find(keys_, name, &StartingKey::name);
    StartingKey key{std::move(name), std::move(value), std::move(remark)};
    known != keys_.end() ? void(*known = std::move(key)) : keys_.push_back(std::move(key));
  }

  // The keys with the typed settings and budgets, except the budget `except`.
  RunSettings settings(std::string_view except = {}) const {
    RunSettings all{.file = {}, .in_file = {}, .typed = typed_settings(changes_of(keys_))};
    all.typed.insert(all.typed.end(), request_.typed.begin(), request_.typed.end());
    std::ranges::copy_if(request_.budgets, std::back_inserter(all.typed), [&](const Setting& one) { return one.name != except; });
    return all;
  }
  Config config() const {
    RunSettings all = settings();
    return load_config(all);
  }

  // In the order of the configuration.
  std::vector<StartingKey> keys() const {
    std::vector<StartingKey> sorted;
    for (const ConfigKey& key : config_keys()) {
      const auto decided = std::ranges::find(keys_, key.name, &StartingKey::name);
      if (decided != keys_.end()) sorted.push_back(*decided);
    }
    return sorted;
  }

 private:
  const StartingRequest& request_;
  std::vector<StartingKey> keys_;
};

std::string memory_text(const Chosen& chosen, const Chooser& chooser) {
  std::string text = fmt::format("{}{} needs at least {} of {}", chosen.method.text, chosen.disk ? ", with the disk," : "",
                                 to_text(chosen.floor), to_text(chooser.budget()));
  if ((chosen.method.adapter() || chosen.disk) && chooser.full()) {
    text += fmt::format("; training all parameters{}, {}", chosen.disk ? " without it" : "", to_text(*chooser.full()));
  }
  return text + ".";
}

std::string model_text(const ModelConfig& model) {
  const Graph graph = build_evaluation_graph(model, 1, {}, 1).model.graph;
  const ModelFacts facts = facts_of(model);
  const std::string positions = facts.vocab > 0 ? fmt::format(", {} positions", grouped(facts.positions)) : "";
  return fmt::format("{}, {} parameters{}.", model.family().title, grouped(parameter_count(graph)), positions);
}

// The samples for training; E-CHAT-UNTRAINED if there are none.
SampleLook look_for_training(const Config& config, bool holds_out) {
  SampleLook look = look_at(sample_request(data_request(config), config.data.train, 0), holds_out);
  if (look.untrained < look.looked_at) return look;
  throw data_error("E-CHAT-UNTRAINED", config.data.train.text(), "none of the samples that were read has a trained token",
                   "turns of an assistant, completions or texts", {Change("data.loss", "all")});
}

}  // namespace

StartingPoint starting_point(const StartingRequest& request, const std::function<void(const std::string&)>& say) {
  check_names(request);
  const Given given = given_by(request.typed);
  const DataPaths& data = given.has("data.train") ? given.config.data.train : request.data;
  check_there(data);
  check_there(given.config.data.validation);
  const bool chat = given.has("data.format") ? data_kind(given.config).renders : all_json(data);

  Decided decided(request);
  decided.put("seed", "1");
  decided.put("model.init", absolute_value(request.model));
  decided.put("data.train", paths_value(data));
  decided.put("data.format", toml_text(chat ? "chat" : "auto"));
  decided.put("train.effective_batch", "1");
  decided.put("optimizer.learning_rate", "2e-5");
  decided.put("schedule.name", toml_text("cosine"));
  decided.put("schedule.warmup", toml_text("3%"));
  Config config = decided.config();
  if (config.model.open_classes) {
    const std::int64_t classes = open_training_in_child(config, request.cache)->classes();
    decided.put("model.classes", std::to_string(classes), "of the data");
    config = decided.config();
  }
  std::optional<SampleLook> look;
  if (chat) look = look_for_training(config, !given.has("data.validation"));

  const std::int64_t most = std::min(facts_of(config.model.config).positions, kMostContext),
                     least = std::min(most, kLeastContext);
  const std::int64_t first = std::clamp(look ? round_up(look->most - 1, kStep) : std::int64_t{1024}, least, most);
  const bool tokens_are_read = facts_of(config.model.config).vocab > 0;
  if (tokens_are_read) decided.put("model.context", std::to_string(first));
  if (look && 2 * look->median <= first) decided.put("batch.packing", "true", "short samples share a row");
  if (look && !look->held_out.empty()) {
    const std::string recurring = recurring_text(look->recurring);
    decided.put("data.validation", toml_text(look->held_out),
                recurring.empty() ? "held out; or a file of such samples" : recurring);
    if (say && !recurring.empty()) say("note: " + recurring);
  }
  PlanningInput input = planning_input(decided.config(), request.cache, say,
                                       {.machine = {}, .probe = request.probe, .runs_now = false, .tells_assumed = false});
  const std::string format = chat ? "chat" : input.data.train->format();
  decided.put("data.format", toml_text(format));

  const std::int64_t tokens = chat ? 0 : input.data.train->positions(),
                     count = chat || tokens > 0 ? 0 : input.data.train->count(reading_of(config));
  const auto samples_of = [&](std::int64_t context) {
    return look ? look->samples_of(context) : tokens > 0 ? tokens / context : count;
  };
  const std::string amount =
      tokens > 0 ? counted(tokens, "token") : counted(count, std::string(data_kind(decided.config()).words.sample).c_str());
  const std::int64_t batch = batch_for(samples_of(first)), epochs = epochs_for(samples_of(first));
  decided.put("train.effective_batch", std::to_string(batch), "samples of an update; never changed by memory");
  // Budgets of a disk are tried last.
  const auto budget_of = [&](std::string_view key) -> std::optional<std::string> {
    const auto found = std::ranges::find(request.budgets, key, &Setting::name);
    return found == request.budgets.end() ? std::nullopt : std::optional(found->text);
  };
  const std::optional<std::string> disk = budget_of("memory.disk");
  input.source = ConfigSource{decided.settings(/*except=*/"memory.disk")};
  keep_freed_memory();  // after the measurement of this machine, which counts kept memory
  Chooser chooser(std::move(input), disk, least);
  const Chosen chosen = chooser.choose(first);

  if (tokens_are_read) {
    decided.put("model.context", std::to_string(chosen.context), context_remark(look, chosen.context));
  }
  for (const StartingKey& key : chosen.method.keys) decided.put(key.name, key.value, key.remark);
  if (chosen.method.adapter()) decided.put("optimizer.learning_rate", "2e-4");
  config = decided.config();
  for (const std::string_view name : given.keys) {
    if (std::string value = text_of(config_key(name), config); !value.empty()) decided.put(std::string(name), std::move(value));
  }
  const std::int64_t of_epoch = std::max<std::int64_t>(1, samples_of(chosen.context)),
                     updates = ceil_div(of_epoch * epochs, batch);
  decided.put("train.epochs", std::to_string(epochs), "about " + counted(updates, "update"));
  if (config.data.validation_share > 0 || !config.data.validation.empty())
    decided.put("train.evaluate_every", std::to_string(ceil_div(ceil_div(of_epoch, batch), 2)), "updates: twice an epoch");
  if (const auto budget = budget_of("memory.budget")) decided.put("memory.budget", toml_text(*budget), "of the whole process");
  if (const auto host = budget_of("memory.host_memory")) decided.put("memory.host_memory", toml_text(*host));
  if (chosen.disk) decided.put("memory.disk", toml_text(*disk));

  return {.model = model_text(config.model.config),
          .data = look ? samples_text(*look) : fmt::format("{} of format \"{}\".", amount, format),
          .memory = memory_text(chosen, chooser),
          .keys = decided.keys(),
          .chat = chat};
}

}  // namespace plimsoll
