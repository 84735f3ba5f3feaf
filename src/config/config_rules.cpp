#include "config/config_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/disk_folder.h"
#include "config/adapter_keys.h"
#include "config/batch.h"
#include "config/data_rules.h"
#include "config/image_rules.h"
#include "config/optimizer_rules.h"
#include "config/stop_rules.h"
#include "device/machine_facts.h"
#include "formats/tokenizer_folder.h"
#include "models/all.h"

namespace plimsoll {
namespace {

// The names ("model.layers") of the keys of all families for which `which` holds.
std::vector<std::string> model_keys(bool ModelKey::*which) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    for (const ModelKey& key : family->keys()) {
      if (key.*which) names.push_back(fmt::format("model.{}", key.name));
    }
  }
  return names;
}

// True if two configurations of a family agree in all keys that a shape requires.
bool same_sizes(const ModelConfig& a, const ModelConfig& b) {
  if (&a.family() != &b.family()) return false;
  return std::ranges::all_of(a.family().keys(), [&](const ModelKey& key) { return !key.required || key.text(a) == key.text(b); });
}

Error missing(const GivenSettings& given, std::string what, std::string expected, Change remedy) {
  return config_error("E-CONFIG-MISSING", given.file(), what + " is not given", std::move(expected), {std::move(remedy)});
}

// `key` contradicts another key, or has no effect.
Error conflict(const GivenSettings& given, std::string_view key, std::string what, std::string expected, Remedies remedies = {}) {
  return config_error("E-CONFIG-CONFLICT", given.where(key), std::move(what), std::move(expected), std::move(remedies));
}

void check_ranks(const Config& config, const GivenSettings& given) {
  if (config.parallel.zero.value_or(1) <= 2) return;
  throw config_error("E-CONFIG-VALUE", given.where("parallel.zero"), "parallel.zero is 3, and ranks cannot share parameters yet",
                     "stage 2, in which they share gradients and the optimizer's state", {Change("parallel.zero", 2)});
}

// A percentage refers to this machine's memory, which says nothing about a GPU's.
void check_shares(const Config& config, const GivenSettings& given) {
  const Setting* budget = given.find("memory.budget");
  if (config.device != DeviceChoice::cuda || budget == nullptr || budget->text.find('%') == std::string::npos) return;
  throw config_error(
      "E-CONFIG-SIZE", budget->where,
      fmt::format("{} = {} is a share of this machine's memory, and the budget is of the GPU's", budget->name, budget->text),
      "a size, such as 8GiB");
}

void check_data(const Config& config, const GivenSettings& given) {
  if (!config.data.train.empty()) return;
  throw missing(given, "data.train", "a text file or a file of tokens", Change("data.train", "train.txt"));
}

// A folder and a preset must have the same shape.
void check_preset_of_folder(const Config& config, const GivenSettings& given) {
  if (config.model.preset.empty() || config.model.init.empty()) return;
  const ModelConfig &preset = model_preset(config.model.preset), &folder = config.model.config;
  if (same_sizes(preset, folder)) return;
  throw config_error("E-CONFIG-INIT", given.where("model.preset"),
                     fmt::format("model.preset \"{}\" is a {} and the model in {} a {}", config.model.preset,
                                 preset.family().describe(preset), config.model.init.string(), folder.family().describe(folder)),
                     "the shape comes from the folder; remove model.preset");
}

void complete_context(Config& config, const GivenSettings& given) {
  ModelSettings& model = config.model;
  const ModelFacts facts = facts_of(model.config);
  const std::int64_t positions = facts.positions;
  if (model.context == 0) model.context = positions;
  if (model.init.empty()) {
    model.config = with_positions(model.config, model.context);
  } else if (model.context > most_positions(facts)) {
    throw config_error(
        "E-CONFIG-INIT", given.where("model.context"),
        fmt::format("model.context is {} and the model in {} has {} positions", model.context, model.init.string(), positions),
        fmt::format("a context of at most {}", positions), {Change("model.context", positions)});
  }
}

void check_shape_is_given(Config& config, const GivenSettings& given) {
  ModelSettings& model = config.model;
  if (!model.preset.empty() || !model.init.empty()) return;
  const bool bytes = config.data.format == "bytes";
  if (bytes && !given.has("model.vocab")) model.config = with_vocabulary(model.config, 256, facts_of(model.config).bytes);
  std::string absent;
  const auto demand = [&](const std::string& key) {
    const bool known = given.has(key) || (key == "model.vocab" && bytes);
    if (!known) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", key);
  };
  const std::span<const ModelKey> keys = model.config.family().keys();
  for (const ModelKey& key : keys) {
    if (key.required && key.size) demand(fmt::format("model.{}", key.name));
  }
  if (facts_of(model.config).vocab > 0) demand("model.context");
  for (const ModelKey& key : keys) {
    if (key.required && !key.size) demand(fmt::format("model.{}", key.name));
  }
  if (absent.empty()) return;
  throw missing(given, absent, "a model.preset, a folder in model.init, or the whole shape", Change("model.preset", "gpt2"));
}

void check_model(const Config& config, const GivenSettings& given) {
  const Family& family = config.model.config.family();
  const std::optional<ModelRemark> fault = family.fault == nullptr ? std::nullopt : family.fault(config.model.config);
  if (!fault) return;
  const auto key = std::ranges::find_if(fault->keys, [&](std::string_view each) { return given.has(each); });
  throw config_error(fault->code, given.where(key == fault->keys.end() ? fault->keys.back() : *key), fault->what,
                     fault->expected);
}

// Sums of products of sizes stay below 2^60, so that no count of bytes or tokens overflows later.
void check_products(const Config& config, const GivenSettings& given) {
  const ModelConfig& model = config.model.config;
  const ModelFacts facts = facts_of(model);
  if (16 * facts.parameters > 0x1p56) {
    throw config_error(
        "E-CONFIG-RANGE", given.where("model.width"),
        fmt::format("the model has {:.3g} parameters: it is a {}", facts.parameters, model.family().describe(model)),
        "less than 4.5e15 parameters");
  }
  const double tokens = static_cast<double>(config.train.effective_batch) * static_cast<double>(config.model.context);
  const double values = tokens * facts.values_per_token;
  if (8 * values > 0x1p56) {
    throw config_error("E-CONFIG-RANGE", given.where("train.effective_batch"),
                       fmt::format("an update of {} samples of {} tokens computes {:.3g} values", config.train.effective_batch,
                                   config.model.context, values),
                       "less than 9e15 values in an update");
  }
  if (tokens * static_cast<double>(config.train.updates) > 0x1p60) {
    throw config_error("E-CONFIG-RANGE", given.where("train.updates"),
                       fmt::format("{} updates of {} tokens are {:.3g} tokens", config.train.updates, tokens,
                                   tokens * static_cast<double>(config.train.updates)),
                       "less than 1.1e18 tokens in a run");
  }
}

// Updates of a number of tokens, and rows with several samples: the number of micro-steps follows from the rows.
void complete_ragged(Config& config, const GivenSettings& given) {
  TrainSettings& train = config.train;
  const bool tokens = train.effective_tokens > 0;
  if (tokens && train.effective_tokens < config.model.context) {
    throw config_error(
        "E-CONFIG-RANGE", given.where("train.effective_tokens"),
        fmt::format("{} tokens are less than a sample of model.context = {}", train.effective_tokens, config.model.context),
        "at least one sample", {Change("train.effective_tokens", config.model.context)});
  }
  if (tokens && given.has("train.effective_batch") && train.effective_batch > 0) {
    throw conflict(given, "train.effective_tokens", "an update has a number of samples and a number of tokens", "one of the two",
                   {Change("train.effective_tokens", 0), Change("train.effective_batch", "auto")});
  }
  if (train.accumulation) {
    throw conflict(given, "train.accumulation", "the rows determine the number of micro-steps, and train.accumulation is given",
                   "without it", {Change("train.accumulation", "auto")});
  }
  if (tokens) train.effective_batch = train.effective_tokens / config.model.context;
  if (train.effective_batch > 0) return;
  throw missing(given, "train.effective_batch", "how many samples an update has", Change("train.effective_batch", 32));
}

void complete_batch(Config& config, const GivenSettings& given) {
  TrainSettings& train = config.train;
  if (config.batch.tokens > 0 && config.batch.tokens < config.model.context * train.micro_batch.value_or(1)) {
    throw config_error("E-CONFIG-RANGE", given.where("batch.tokens"),
                       fmt::format("a micro-batch of {} rows of {} tokens has more than {}", train.micro_batch.value_or(1),
                                   config.model.context, config.batch.tokens),
                       "at least one row of model.context tokens", {Change("batch.tokens", 0)});
  }
  if (train.effective_tokens > 0 || config.batch.packing) return complete_ragged(config, given);
  const std::optional<std::int64_t> effective = train.effective_batch > 0 ? std::optional(train.effective_batch) : std::nullopt;
  std::string where = given.file();
  for (const std::string_view key : {"train.accumulation", "train.micro_batch", "train.effective_batch"}) {
    if (given.has(key)) where = given.where(key);
  }
  const BatchSplit split = resolve_batch(effective, train.micro_batch, train.accumulation, where);
  if (!effective && !given.has("train.accumulation")) {
    config.notes.push_back(fmt::format("{}: an update is one micro-batch of {} samples, since train.effective_batch is not given",
                                       where, split.effective));
  }
  train.effective_batch = split.effective;
  train.micro_batch = split.micro;
  train.accumulation = split.accumulation;
}

// A folder of weights usually carries its vocabulary, and so does a GGUF file.
void complete_vocabulary(Config& config, const GivenSettings& given) {
  const std::filesystem::path& init = config.model.init;
  if (!init.empty() && !given.has("data.vocabulary") && has_vocabulary(init)) config.data.vocabulary = init;
}

bool names_tokens(const DataPaths& paths) { return !paths.empty() && paths.names.front().extension() == ".bin"; }

// Marks the tokens of the model as bytes if the data are most likely read as bytes. A note warns if the vocabulary is larger.
void mark_byte_vocabulary(Config& config) {
  const DataSettings& data = config.data;
  ModelConfig& model = config.model.config;
  const std::int64_t vocab = facts_of(model).vocab;
  const bool guess = data.format == "auto" && !names_tokens(data.train) && (vocab <= 256 || data.vocabulary.empty());
  if (guess && vocab > 256 && config.model.init.empty()) {
    config.notes.push_back(
        fmt::format("{} is read as bytes, which are 256 of the {} tokens, unless it begins with llm.c's header; "
                    "data.vocabulary names a folder of tokenizer.json, or of vocab.json and merges.txt",
                    data.train.text(), vocab));
  }
  if (config.model.init.empty()) model = with_vocabulary(model, vocab, guess || data.format == "bytes");
}

void check_clips(Config& config, const GivenSettings& given) {
  TrainSettings& train = config.train;
  if (train.gradient_clip_value > 0 && !given.has("train.gradient_clip")) train.gradient_clip = 0;
  if (train.gradient_clip_value == 0 || train.gradient_clip == 0) return;
  throw conflict(given, "train.gradient_clip_value", "gradients are clipped by their norm and by value", "one of the two",
                 {Change("train.gradient_clip", 0), Change("train.gradient_clip_value", 0)});
}

// The default of schedule.final_fraction.
double usual_end(const Schedule& schedule) {
  constexpr double kOneCycleDepth = 1e4;  // as in PyTorch
  switch (schedule.kind) {
    case ScheduleKind::constant: return 1;
    case ScheduleKind::linear:
    case ScheduleKind::polynomial:
    case ScheduleKind::wsd:
    case ScheduleKind::cosine_restarts: return 0;
    case ScheduleKind::cosine:
    case ScheduleKind::triangular:
    case ScheduleKind::triangular2: return 0.1;
    case ScheduleKind::plateau: return 0.01;
    case ScheduleKind::one_cycle: return schedule.start_fraction / kOneCycleDepth;
  }
  return 0;
}

// By default, one_cycle varies momentum as well.
void complete_momentum(Config& config, const GivenSettings& given) {
  Schedule& schedule = config.schedule;
  const OptimizerKind kind = config.optimizer.kind;
  const bool none = kind == OptimizerKind::adafactor || (kind == OptimizerKind::sgd && config.optimizer.momentum == 0);
  const bool said = given.has("optimizer.betas") || given.has("optimizer.half_lives") || given.has("optimizer.momentum");
  const bool open = schedule.kind == ScheduleKind::one_cycle && !given.has("schedule.momentum_range");
  if (open && !none && !said) schedule.momentum = {0.95, 0.85};
  if (!schedule.momentum || !none) return;
  throw conflict(given, "schedule.momentum_range", "schedule.momentum_range is given and there is no momentum",
                 "an optimizer that has momentum, or no range",
                 {Change("optimizer.momentum", "0.9"), Change("schedule.momentum_range", "none")});
}

void complete_schedule(Config& config, const GivenSettings& given) {
  constexpr double kUsualCycles = 4, kUsualDecay = 0.2;
  Schedule& schedule = config.schedule;
  const RunLength run = run_length(config);
  const double batch = static_cast<double>(run.effective_batch), total = batch * static_cast<double>(run.updates);
  const double warmup = in_samples(schedule.warmup, run), behind = std::max(0.0, total - warmup);
  const auto samples = [](double count) { return Duration{static_cast<std::int64_t>(std::ceil(count)), ClockUnit::samples}; };
  if (!given.has("schedule.final_fraction")) schedule.final_fraction = usual_end(schedule);
  if (!given.has("schedule.cycle")) schedule.cycle = samples(std::max(behind / kUsualCycles, 2 * batch));
  if (!given.has("schedule.decay_length")) schedule.decay = samples(kUsualDecay * total);
  if (!given.has("schedule.patience")) schedule.patience = usual_patience(config);
  complete_momentum(config, given);
  const double cycle = in_samples(schedule.cycle, run) / batch, decay = in_samples(schedule.decay, run);
  if (cycle < 2) {
    throw config_error("E-CONFIG-RANGE", given.where("schedule.cycle"), fmt::format("schedule.cycle is {:g} updates", cycle),
                       "a cycle of at least two updates", {Change("schedule.cycle", "2updates")});
  }
  if (warmup > total) {
    config.notes.push_back(fmt::format("{}: the warm-up takes {:.0f} samples and the run {:.0f}; the peak rate is never reached",
                                       given.where("schedule.warmup"), warmup, total));
  } else if (schedule.kind == ScheduleKind::wsd && decay >= behind) {
    config.notes.push_back(
        fmt::format("{}: the decay takes {:.0f} samples, and {:.0f} follow the warm-up; the rate is never stable",
                    given.where("schedule.decay_length"), decay, behind));
  }
}

// Settings without effect.
void check_schedule(const Config& config, const GivenSettings& given) {
  for (const ConfigKey& key : config_keys()) {
    const Setting* setting = given.find(key.name);
    if (setting == nullptr || schedule_has(config.schedule.kind, key.name)) continue;
    throw config_error(
        "E-CONFIG-CONFLICT", setting->where,
        fmt::format("{} is given, and the schedule {} has no such key", setting->name, config_key("schedule.name").text(config)),
        fmt::format("without it, or a schedule that has it: {}", key.comment));
  }
}

// The value of `auto` among the allowed ones: bf16 if it is faster, else fp32.
void choose_precision(Config& config, const GivenSettings& given, const Bf16Speed& bf16) {
  const Setting* compute = given.find("precision.compute");
  if (compute == nullptr || !is_auto(*compute)) {
    if (!given.has("precision.allow")) return;
    throw conflict(given, "precision.allow", "precision.allow is given, and there is nothing to choose",
                   "it belongs to precision.compute = \"auto\"", {Change("precision.compute", "auto")});
  }
  const std::vector<DType> allowed = *std::exchange(config.precision.allowed, {});
  const auto may = [&](DType dtype) { return std::find(allowed.begin(), allowed.end(), dtype) != allowed.end(); };
  // The speed of a processor is no measure of a GPU.
  const Bf16Speed speed =
      config.device == DeviceChoice::cuda ? Bf16Speed{true, "GPUs multiply bf16 at several times the rate"} : bf16;
  const DType order[] = {speed.fast ? DType::bf16 : DType::f32, speed.fast ? DType::f32 : DType::bf16, DType::f16};
  config.precision.compute = *std::find_if(std::begin(order), std::end(order), may);
  config.notes.push_back(
      fmt::format("precision.compute: auto stands for {}: {}", precision_name(config.precision.compute), speed.reason));
}

void check_rounding(const Config& config, const GivenSettings& given) {
  const PrecisionSettings& precision = config.precision;
  if (precision.rounding != Rounding::nearest) {
    if (!precision.force_nearest) return;
    throw conflict(given, "precision.force_nearest", "precision.force_nearest is given, and rounding is at random",
                   "without it, or nearest", {Change("precision.rounding", "nearest")});
  }
  const std::string where = given.where("precision.rounding");
  if (!precision.has_narrow_numbers()) {
    throw config_error("E-CONFIG-CONFLICT", where, "precision.rounding is given, and all stored numbers are fp32",
                       "without it, or parameters, gradients or optimizer_state that are narrower",
                       {Change("precision.optimizer_state", "bf16")});
  }
  if (precision.force_nearest) return;
  throw config_error("E-CONFIG-ROUNDING", where, "rounding to the nearest loses every step below half a digit",
                     "stochastic rounding, which keeps them on average; or force_nearest",
                     {Change("precision.rounding", "stochastic"), Change("precision.force_nearest", "true")});
}

void check_precision(const Config& config, const GivenSettings& given) {
  check_rounding(config, given);
  for (const char* key : {"precision.loss_scale", "precision.loss_scale_growth"}) {
    if (config.precision.compute == DType::f16 || given.find(key) == nullptr) continue;
    throw conflict(given, key, fmt::format("{} is given, and {} needs no scale", key, precision_name(config.precision.compute)),
                   "without it, or fp16", {Change("precision.compute", "fp16")});
  }
  if (config.precision.parameters != DType::f32 && config.precision.compute != DType::bf16) {
    throw conflict(given, "precision.parameters", "precision.parameters is bf16, and products are not",
                   "products of bf16, or weights of fp32",
                   {Change("precision.compute", "bf16"), Change("precision.parameters", "fp32")});
  }
  if (keeps_state(config) || config.precision.optimizer_state == DType::f32) return;
  throw conflict(given, "precision.optimizer_state", "this optimizer has no state for each parameter that could be narrower",
                 "adamw, lion, sgd with momentum, or fp32", {Change("precision.optimizer_state", "fp32")});
}

// Notes on choices that are accepted, and are most likely a mistake.
void note_doubtful(Config& config, const GivenSettings& given) {
  note_doubtful_optimizer(config, given);
  const auto note = [&](bool doubtful, std::string_view key, const std::string& what) {
    if (doubtful && given.has(key)) config.notes.push_back(fmt::format("{}: {}", given.where(key), what));
  };
  const TrainSettings& train = config.train;
  const ModelConfig& model = config.model.config;
  if (const Family& family = model.family(); family.doubts != nullptr) {
    for (const ModelRemark& doubt : family.doubts(model)) {
      note(true, given.has(doubt.keys.front()) ? doubt.keys.front() : "model.init", doubt.what);
    }
  }
  const std::int64_t positions = facts_of(model).positions;
  note(!config.model.init.empty() && config.model.context > positions, "model.context",
       fmt::format("samples of {} tokens; the model in {} was made for at most {}", config.model.context,
                   config.model.init.string(), positions));
  note(config.model.context == 1 && facts_of(model).vocab > 0, "model.context", "samples of 1 token: no token sees another one");
  note(train.label_smoothing >= 0.8, "train.label_smoothing",
       fmt::format("a label smoothing of {:g} leaves {:.2g} % to the target", train.label_smoothing,
                   100 * (1 - train.label_smoothing)));
  note(train.gradient_clip > 0 && train.gradient_clip < 1e-4, "train.gradient_clip",
       fmt::format("gradients are clipped to a norm of {:g}", train.gradient_clip));
  const bool validates = has_validation(config);
  const std::int64_t interval = evaluation_interval(config);
  note(interval > 0 && !validates, "train.evaluate_every", "train.evaluate_every is not used: data.validation is not given");
  note(train.evaluate_samples > 0 && !validates, "train.evaluate_samples",
       "train.evaluate_samples is not used: data.validation is not given");
  note(train.show_samples.value_or(0) > 0 && !validates, "train.show_samples",
       "train.show_samples is not used: data.validation is not given");
  note(interval > train.updates, "train.evaluate_every",
       fmt::format("{} updates between validation losses, and the run has {}: there is one at the end only", interval,
                   train.updates));
  note(config.save.every.updates > train.updates, "save.every",
       fmt::format("{} updates between checkpoints, and the run has {}: there is one at the end only", config.save.every.updates,
                   train.updates));
}

void check_resting(const Config& config, const GivenSettings& given) {
  const PlanSettings& plan = config.plan;
  const std::array places{std::pair{"plan.optimizer_state", plan.optimizer_state}, std::pair{"plan.parameters", plan.parameters},
                          std::pair{"plan.gradients", plan.gradients}, std::pair{"plan.activations", plan.activations}};
  for (const auto& [key, policy] : places) {
    if (policy != RestPolicy::disk) continue;
    if (!config.memory.disk && !config.memory.host_memory) {
      throw missing(given, "memory.disk", fmt::format("a folder and a size, since {} is \"disk\"", key), advised_disk("16GiB"));
    }
    if (plan.optimizer_state != RestPolicy::memory) continue;
    throw config_error("E-CONFIG-VALUE", "plan.optimizer_state", fmt::format("it is \"memory\" and {} is \"disk\"", key),
                       "optimizer state on the disk as well: it is read least often", {Change("plan.optimizer_state", "disk")});
  }
}

// A setting `key`, and the setting `other` that it excludes if `says` holds for the configuration of `key` alone.
struct Rivals {
  std::string_view key, other;
  bool (*says)(const Config&);
};

bool needs_no_scale(const Config& config) { return config.precision.compute != DType::f16; }

constexpr Rivals kRivals[] = {
    {"optimizer.betas", "optimizer.half_lives", [](const Config&) { return true; }},
    {"optimizer.half_lives", "optimizer.betas", [](const Config& c) { return c.optimizer.half_lives.has_value(); }},
    {"precision.compute", "precision.allow", [](const Config& c) { return !c.precision.allowed; }},
    {"precision.compute", "precision.loss_scale", needs_no_scale},
    {"precision.compute", "precision.loss_scale_growth", needs_no_scale},
    {"train.epochs", "train.updates", [](const Config& c) { return c.train.epochs.has_value(); }},
    {"train.gradient_clip", "train.gradient_clip_value", [](const Config& c) { return c.train.gradient_clip > 0; }},
    {"train.gradient_clip_value", "train.gradient_clip", [](const Config& c) { return c.train.gradient_clip_value > 0; }},
};

bool excludes(const KeySetting& one, std::string_view other) {
  if (one.key->name == "schedule.name") return !schedule_has(one.alone().schedule.kind, other);
  if (one.key->name == "model.init" && !text(one.setting).empty() && text(one.setting) != "random") {
    const std::vector<std::string> shape = model_keys(&ModelKey::of_folder);
    return other == "model.preset" || std::ranges::find(shape, other) != shape.end();
  }
  return std::any_of(std::begin(kRivals), std::end(kRivals), [&](const Rivals& rivals) {
    return rivals.key == one.key->name && rivals.other == other && rivals.says(one.alone());
  });
}

}  // namespace

bool keeps_state(const Config& config) { return has_state(config.optimizer.kind, config.optimizer.momentum > 0); }

const Setting* GivenSettings::find(std::string_view key) const {
  const auto& slot = settings_[static_cast<std::size_t>(&config_key(key) - config_keys().data())];
  return slot ? &slot->setting : nullptr;
}

std::string GivenSettings::where(std::string_view key) const {
  const Setting* setting = find(key);
  return setting != nullptr ? setting->where : file_;
}

bool schedule_has(ScheduleKind kind, std::string_view key) {
  using enum ScheduleKind;
  const bool triangle = kind == triangular || kind == triangular2;
  const std::pair<std::string_view, bool> keys[] = {{"schedule.cycle", triangle || kind == cosine_restarts},
                                                    {"schedule.cycle_growth", kind == cosine_restarts},
                                                    {"schedule.start_fraction", kind == one_cycle},
                                                    {"schedule.peak_at", kind == one_cycle},
                                                    {"schedule.decay_length", kind == wsd},
                                                    {"schedule.decay_shape", kind == wsd},
                                                    {"schedule.power", kind == polynomial},
                                                    {"schedule.patience", kind == plateau},
                                                    {"schedule.factor", kind == plateau},
                                                    {"schedule.momentum_range", triangle || kind == one_cycle}};
  for (const auto& [name, has] : keys) {
    if (name == key) return has;
  }
  return true;
}

std::string text_of(const ConfigKey& key, const Config& config) {
  const bool of_norm = key.name.starts_with("norm.");
  if (of_norm && (config.model.config.empty() || !facts_of(config.model.config).batch_norm)) return "";
  return schedule_has(config.schedule.kind, key.name) ? key.text(config) : "";
}

OnResume on_resume(const ConfigKey& key, const Config& config) {
  const bool length_alone = key.name == "train.updates" && config.schedule.kind == ScheduleKind::constant;
  return length_alone ? OnResume::free : key.on_resume;
}

bool counts_before(const Setting& one, const Setting& other) {
  const auto rank = [](const Setting& setting) { return setting.typed ? (setting.earlier ? 1 : 2) : 0; };
  return rank(one) > rank(other);
}

void leave_aside(KeySettings& settings, std::vector<std::string>& notes) {
  for (const std::optional<KeySetting>& one : settings) {
    if (!one || !one->setting.typed) continue;
    for (std::optional<KeySetting>& other : settings) {
      if (!other || !counts_before(one->setting, other->setting) || !excludes(*one, other->key->name)) continue;
      notes.push_back(fmt::format("{}: {} is left aside: {} says {} = {}", other->setting.where, other->setting.name,
                                  one->setting.where, one->setting.name, one->setting.text));
      other.reset();
    }
  }
}

void check_init_alone(const GivenSettings& given) {
  const Setting* init = given.find("model.init");
  if (init == nullptr || text(*init).empty() || text(*init) == "random") return;
  const Setting* head = given.find("model.head");
  const bool new_head = head != nullptr && text(*head) == "new";
  const std::vector<std::string> of_head = model_keys(&ModelKey::of_new_head);
  for (const std::string& key : model_keys(&ModelKey::of_folder)) {
    const Setting* setting = given.find(key);
    if (setting == nullptr || (new_head && std::ranges::find(of_head, key) != of_head.end())) continue;
    // A typed folder would override the shape in the file. For typed keys there is no advice.
    Remedies remedies;
    if (!setting->typed) remedies.push_back(Change("model.init", path(*init).string()));
    throw config_error("E-CONFIG-INIT", setting->where,
                       fmt::format("{} = {} contradicts model.init = \"{}\", which defines the shape", setting->name,
                                   setting->text, text(*init)),
                       "only model.dropout and model.context may be given with a folder; remove the others", std::move(remedies));
  }
}

void complete(Config& config, const GivenSettings& given, const Bf16Speed& bf16, ConfigFaults& faults) {
  if (!faults.attempt({"adapter"}, [&] { complete_adapter(config, given); })) faults.distrust("model");
  if (config.model.config.empty()) config.model.config = families().front()->defaults();
  faults.attempt({"data.train"}, [&] { check_data(config, given); });
  faults.attempt({"model", "data.format"}, [&] {
    check_shape_is_given(config, given);
    check_preset_of_folder(config, given);
    complete_context(config, given);
    check_model(config, given);
  });
  config.train.open = config.train.epochs && !given.has("train.updates");
  faults.attempt({"data", "batch"}, [&] { check_samples(config, given); });
  faults.attempt({"model", "data", "image"}, [&] { check_images(config, given); });
  faults.attempt({"model", "batch", "train.effective_tokens"}, [&] { check_no_tokens(config, given); });
  faults.attempt(
      {"train.effective_batch", "train.effective_tokens", "train.micro_batch", "train.accumulation", "batch", "model.context"},
      [&] { complete_batch(config, given); });
  faults.attempt({"model", "norm", "train", "batch", "adapter"}, [&] { complete_images(config, given); });
  faults.attempt({"model", "image"}, [&] { complete_pixels(config, given); });
  faults.attempt({"model", "train.effective_batch", "train.updates"}, [&] { check_products(config, given); });
  faults.attempt({"model", "data"}, [&] {
    complete_vocabulary(config, given);
    mark_byte_vocabulary(config);
  });
  faults.attempt({"train.gradient_clip", "train.gradient_clip_value"}, [&] { check_clips(config, given); });
  faults.attempt({"optimizer", "train.effective_batch", "model.context"}, [&] { complete_optimizer(config, given); });
  faults.attempt({"schedule"}, [&] { check_schedule(config, given); });
  faults.attempt({"schedule", "optimizer", "train.effective_batch", "train.updates", "model.context"},
                 [&] { complete_schedule(config, given); });
  faults.attempt({"schedule", "stop", "train", "data", "model"}, [&] { check_stop(config, given); });
  faults.attempt({"memory.budget", "machine.device"}, [&] { check_shares(config, given); });
  faults.attempt({"parallel"}, [&] { check_ranks(config, given); });
  faults.attempt({"model.freeze", "adapter"}, [&] { check_frozen(config, given); });
  faults.attempt({"plan", "memory"}, [&] { check_resting(config, given); });
  faults.attempt({"precision"}, [&] { choose_precision(config, given, bf16); });
  faults.attempt({"precision", "optimizer"}, [&] { check_precision(config, given); });
  faults.attempt({"model", "optimizer", "train", "data", "precision"}, [&] { note_doubtful(config, given); });
  if (config.threads == 0) config.threads = usable_cores();
}

}  // namespace plimsoll
