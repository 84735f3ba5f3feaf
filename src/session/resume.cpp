#include "session/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "device/machine_facts.h"
#include "formats/file.h"
#include "formats/gguf/gguf_file.h"
#include "formats/weights_folder.h"
#include "models/all.h"
#include "models/family.h"
#include "records/run_folder.h"
#include "session/run_remedies.h"
#include "weights/adapter_weights.h"
#include "weights/origin.h"

namespace plimsoll {
namespace {

Error refused(const std::filesystem::path& run, const std::string& what, bool with_force) {
  Remedies remedies{Remedy::of_command("train", {{"command.run", run.string()}, {"command.resume"}})};
  if (with_force) remedies.push_back(Change("command.force"));
  return config_error("E-RESUME", run.string(), what,
                      with_force ? "the settings of the run; force accepts the change" : "the settings of the run", remedies);
}

// The last setting of a key, or null.
Setting* last_of(std::vector<Setting>& settings, std::string_view key) {
  std::vector<std::string> unheard;
  ConfigFaults unjudged;  // they were checked when loaded
  Setting* found = nullptr;
  for (Setting& setting : settings) {
    for (const KeySetting& one : find_keys({setting}, unheard, unjudged)) {
      if (one.key->name == key) found = &setting;
    }
  }
  return found;
}

bool says_the_same(const Setting* a, const Setting* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->text == b->text;
}

std::string shown(const std::string& text) { return text.empty() ? "nothing" : text; }

bool names_folder(const Setting* setting) {
  return setting != nullptr && std::holds_alternative<std::string>(setting->value) && !text(*setting).empty() &&
         text(*setting) != "random";
}

// For a run without a record of its file: all of its settings override a file.
RunSettings as_typed(RunSettings resolved) {
  for (Setting& setting : resolved.in_file) setting.typed = setting.earlier = true;
  return {resolved.file, {}, std::move(resolved.in_file)};
}

// The original folders of weights and vocabulary may be gone. The checkpoint holds the weights, and the run keeps shape and
// vocabulary in its own weights/.
class Origins {
 public:
  explicit Origins(const std::filesystem::path& run) : weights_(std::filesystem::absolute(run) / "weights") {}

  // The settings, with replacements for missing folders.
  RunSettings stand_in(RunSettings settings) {
    init_ = replace(settings, "model.init", {"config.json"});
    adapter_ = replace(settings, "adapter.init", {"adapter_config.json"});
    vocabulary_ = replace(settings, "data.vocabulary", {"vocab.json", "tokenizer.json", "tokenizer.model"});
    return settings;
  }

  // Restores the original names after stand_in and loading.
  void name(Config& config) const {
    if (!init_.empty()) config.model.init = init_;
    if (!adapter_.empty()) config.adapter.init = adapter_;
  }

  // The same, with the vocabulary, for a configuration that is only compared.
  void name_all(Config& config) const {
    name(config);
    if (!vocabulary_.empty()) config.data.vocabulary = vocabulary_;
  }

 private:
  // Returns the named folder if it is replaced.
  std::filesystem::path replace(RunSettings& settings, std::string_view key, std::initializer_list<const char*> files) {
    Setting* setting = last_of(settings.typed, key);
    if (setting == nullptr) setting = last_of(settings.in_file, key);
    const bool now = setting != nullptr && setting->typed && !setting->earlier;
    if (now || !names_folder(setting)) return {};
    const auto holds = [&](const std::filesystem::path& folder) {
      return std::any_of(files.begin(), files.end(), [&](const char* file) { return is_there(folder / file); });
    };
    const std::filesystem::path named = weights_folder(path(*setting));
    if (holds(named) || (is_gguf(named) && is_there(named)) || !holds(weights_)) return {};
    setting->value = setting->text = weights_.string();
    return named;
  }

  std::filesystem::path weights_, init_, adapter_, vocabulary_;
};

// Adds typed settings for `auto` and absent keys whose meaning has changed since the run began (another processor or version),
// with their value of that time.
void pin_what_drifted(RunSettings& settings, const Config& begun, const RunSettings& resolved, Origins& origins,
                      const Bf16Speed& bf16) {
  RunSettings then = origins.stand_in(settings);
  Config now;
  try {
    now = load_config(then, bf16);
  } catch (const Error&) {
    return;  // errors are reported when it is loaded with the new settings
  }
  for (const ConfigKey& key : config_keys()) {
    if (key.on_resume == OnResume::place || key.on_resume == OnResume::free) continue;
    if (key.name == "machine.threads" && begun.threads > usable_cores()) continue;
    const std::string text = text_of(key, begun);
    if (text.empty() || text == text_of(key, now)) continue;
    std::vector<Setting> all = resolved.in_file;
    if (Setting* own = last_of(all, key.name)) {
      own->typed = own->earlier = true;
      settings.typed.insert(settings.typed.begin(), *own);
    }
  }
}

// A relative path that leads nowhere from its present base keeps the base of the run's start.
void keep_bases(std::vector<Setting>& now, std::vector<Setting>& then) {
  for (Setting& setting : now) {
    const auto* text = std::get_if<std::string>(&setting.value);
    if (text == nullptr || text->empty() || is_there(setting.base / *text)) continue;
    const auto same = [&](const Setting& other) { return other.name == setting.name && other.text == setting.text; };
    const auto before = std::find_if(then.begin(), then.end(), same);
    if (before != then.end() && is_there(before->base / *text)) setting.base = before->base;
  }
}

// The differences from the start of the run: notes for those that are permitted, an error for the others.
class Differences {
 public:
  Differences(const Config& begun, Config& config, bool force) : begun_(begun), config_(config), force_(force) {}

  // `typed`: given on the command line now. `edited`: changed in the file since the run began.
  void add(const ConfigKey& key, const Setting* typed, bool edited, const Setting* in_file, bool typed_then) {
    const std::string before = text_of(key, begun_), after = text_of(key, config_);
    if (before == after) {
      if (edited && typed_then && in_file != nullptr && typed == nullptr) {
        config_.notes.push_back(fmt::format("{}: {} is ignored: the command line of the run set {} = {}", in_file->where,
                                            in_file->name, key.name, shown(after)));
      }
      return;
    }
    const std::string by = typed != nullptr ? typed->where : (edited && in_file != nullptr ? in_file->where : "");
    const std::string line =
        fmt::format("{}: {} -> {}{}", key.name, shown(before), shown(after), by.empty() ? "" : " (" + by + ")");
    const OnResume may = on_resume(key, config_);
    if (may == OnResume::never) {
      never_.push_back(line);
    } else if (!force_ && (may == OnResume::forced || (may == OnResume::results && typed == nullptr && edited))) {
      forced_.push_back(line);
    } else {
      config_.notes.push_back(fmt::format("changed since the run began: {}{}", line, consequence(key)));
    }
  }

  void add_never(bool differs, const std::string& line) {
    if (differs) never_.push_back(line);
  }

  void check(const std::filesystem::path& run) const {
    if (!never_.empty()) {
      throw refused(run, fmt::format("the checkpoint is of another run: {}", fmt::join(all(), "; ")), false);
    }
    if (!forced_.empty()) throw refused(run, fmt::format("the changes alter results: {}", fmt::join(forced_, "; ")), true);
  }

 private:
  std::vector<std::string> all() const {
    std::vector<std::string> lines = never_;
    lines.insert(lines.end(), forced_.begin(), forced_.end());
    return lines;
  }

  std::string consequence(const ConfigKey& key) const {
    if (key.name == "precision.loss_scale") return "; the scale continues from the checkpoint";
    if (key.name == "precision.optimizer_state") return "; the saved state is converted, rounded to the nearest";
    const bool follows = key.name == "train.updates" && config_.schedule.kind != ScheduleKind::constant;
    return follows ? "; the learning rate follows its schedule to the new end" : "";
  }

  const Config& begun_;
  Config& config_;
  bool force_;
  std::vector<std::string> never_, forced_;
};

// Checkpoints of earlier versions lack the model; the run has a copy of config.json.
std::string model_then(const Config& config, const Progress& progress, const std::filesystem::path& run) {
  if (!progress.origin.model.empty()) return progress.origin.model;
  const std::filesystem::path& init = config.model.init;
  const bool copied = !init.empty() && !is_gguf(init) && is_there(run / "weights" / "config.json");
  return text_of_model(copied ? read_model(run / "weights") : config.model.config);
}

void check_adapter_origin(const Config& config, const Origin& then, const std::filesystem::path& run) {
  const std::filesystem::path& init = config.adapter.init;
  if (then.model.empty() || whole_path(init) == then.adapter) return;
  if (!init.empty() && adapter_hash(init) == then.adapter_weights) return;
  throw refused(run,
                fmt::format("adapter.init is {}, and the run began with {}", shown(init.string()),
                            then.adapter.empty() ? "a new adapter" : "other numbers, of " + then.adapter),
                false);
}

}  // namespace

ResumedConfig resume_config(const std::filesystem::path& run, const ResumeRequest& request, const Bf16Speed& bf16) {
  const std::filesystem::path resolved_file = run / "config.resolved.toml";
  const RunSettings resolved{resolved_file, read_settings(resolved_file), {}};
  Origins origins(run);
  RunSettings own = origins.stand_in(resolved);
  Config begun = load_config(own, bf16);
  origins.name_all(begun);

  const std::optional<RunSettings> stored = stored_settings(run);
  RunSettings then = stored ? *stored : as_typed(resolved);
  if (stored) pin_what_drifted(then, begun, resolved, origins, bf16);
  std::error_code ignored;
  const bool own_file = request.file.empty() || std::filesystem::equivalent(request.file, resolved_file, ignored);
  ResumedConfig resumed{{}, then};
  if (!own_file) {
    resumed.settings.file = request.file;
    resumed.settings.in_file = read_settings(request.file);
    if (!stored) then.in_file = resumed.settings.in_file;
    keep_bases(resumed.settings.in_file, then.in_file);
  }
  std::vector<Setting> typed = request.typed;
  resumed.settings.typed.insert(resumed.settings.typed.end(), typed.begin(), typed.end());

  RunSettings loaded = origins.stand_in(resumed.settings);
  Config& config = resumed.config;
  config = load_config(loaded, bf16);
  origins.name(config);
  // Drops replacements and ignored settings: the user did not give them.
  std::erase_if(resumed.settings.typed, [&](const Setting& setting) {
    return std::none_of(loaded.typed.begin(), loaded.typed.end(), [&](const Setting& one) {
      return one.name == setting.name && one.where == setting.where && one.earlier == setting.earlier;
    });
  });

  if (!own_file && !stored) {
    config.notes.push_back(
        fmt::format("{}: the run has no record of its first content; the run's own settings count", request.file.string()));
  }
  Differences differences(begun, config, request.force);
  for (const ConfigKey& key : config_keys()) {
    const Setting* in_file = last_of(resumed.settings.in_file, key.name);
    const bool edited = !says_the_same(in_file, last_of(then.in_file, key.name));
    differences.add(key, last_of(typed, key.name), edited, in_file, last_of(then.typed, key.name) != nullptr);
  }
  differences.add_never(!same_shape(begun.model.config, config.model.config), "the shape of model.init");
  differences.add_never(begun.optimizer.ema_half_life.has_value() != config.optimizer.ema_half_life.has_value(),
                        "an average of the weights is kept from the beginning or not at all");
  differences.add_never(keeps_state(begun) != keeps_state(config), "momentum is kept from the beginning or not at all");
  differences.check(run);
  return resumed;
}

std::vector<std::string> check_resumed_origin(const Config& config, const Progress& progress, const std::filesystem::path& run,
                                              bool force) {
  check_adapter_origin(config, progress.origin, run);
  std::vector<std::string> lines = model_differences(model_then(config, progress, run), text_of_model(config.model.config));
  if (lines.empty() || force) {
    for (std::string& line : lines) line = "changed since the run began: " + line;
    return lines;
  }
  const std::filesystem::path& init = config.model.init;
  Error error = config_error(
      "E-RESUME", run.string(),
      fmt::format("{} computes another function than at the start of the run: {}", shown(init.string()), fmt::join(lines, "; ")),
      "the original model; force continues with the present one",
      {Remedy::of_command("train", {{"command.run", run.string()}, {"command.resume"}, {"command.force"}})});
  const std::filesystem::path kept = run / "weights" / "config.json";
  if (is_there(kept)) error.expected += fmt::format("; {} is a copy of the original config.json", kept.string());
  throw error;
}

std::vector<std::string> check_resumed_batch(const Config& config, const Progress& progress,
                                             const std::filesystem::path& checkpoint) {
  const bool ragged = config.train.effective_tokens > 0 || config.batch.packing;
  if (!ragged && progress.micro_batch * progress.accumulation != config.train.effective_batch) {
    throw data_error("E-CKPT-FORMAT", checkpoint.string(),
                     fmt::format("its updates have {} x {} samples and those of the run {}", progress.micro_batch,
                                 progress.accumulation, config.train.effective_batch),
                     "the checkpoint of this run");
  }
  const std::int64_t now = config.train.micro_batch.value_or(progress.micro_batch);
  if (now == progress.micro_batch) return {};
  return {fmt::format("changed since the checkpoint: train.micro_batch: {} -> {}; sums are rounded in another order",
                      progress.micro_batch, now)};
}

void check_resumed_data(const Config& config, const Progress& progress, const std::string& data_hash, const RunFolder& folder) {
  if (progress.data_hash == data_hash) return;
  throw config_error("E-RESUME-DATA", folder.path().string(),
                     facts_of(config.model.config).vocab == 0
                         ? "the training data are not those of this run"
                         : "the training data, or the tokens that template and tokenizer make of it, are not those of this run",
                     "the same file as before", {RunRemedies(config, folder).other_data()});
}

}  // namespace plimsoll
