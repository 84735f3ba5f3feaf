#include "config/config_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "config/adapter_keys.h"
#include "config/clock_keys.h"
#include "config/key_access.h"
#include "config/model_keys.h"
#include "data/data_formats.h"
#include "data/data_kinds.h"
#include "device/machine_facts.h"
#include "models/family.h"
#include "plan/passes/grouping.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMaxContext = 1 << 24;
constexpr std::int64_t kMaxBatch = 1 << 24;
constexpr std::int64_t kMaxKept = 1 << 12;
constexpr std::int64_t kMostShown = 64;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 36;
constexpr double kLeastEpochs = 1e-6, kMostEpochs = 1e6;
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

constexpr std::array kComputeTypes{DType::f32, DType::bf16, DType::f16};
constexpr std::array kRoundedTypes{DType::f32, DType::bf16};
constexpr std::array kStateTypes{DType::f32, DType::bf16, DType::u8};
constexpr Named<TrainedTurns> kTrainedTurns[] = {
    {TrainedTurns::assistant, "assistant"}, {TrainedTurns::last, "last"}, {TrainedTurns::all, "all"}};
constexpr Named<LongSamples> kLongSamples[] = {{LongSamples::automatic, "auto"},
                                               {LongSamples::split, "split"},
                                               {LongSamples::cut_begin, "cut_begin"},
                                               {LongSamples::cut_end, "cut_end"},
                                               {LongSamples::drop, "drop"}};
constexpr Named<OrderKind> kOrders[] = {{OrderKind::shuffled, "shuffled"}, {OrderKind::sequential, "sequential"}};
constexpr Named<OptimizerKind> kOptimizers[] = {{OptimizerKind::adamw, "adamw"},
                                                {OptimizerKind::sgd, "sgd"},
                                                {OptimizerKind::lion, "lion"},
                                                {OptimizerKind::adafactor, "adafactor"}};
constexpr Named<OptimizerSettings::Decay> kDecays[] = {{OptimizerSettings::Decay::matrices, "matrices"},
                                                       {OptimizerSettings::Decay::all, "all"},
                                                       {OptimizerSettings::Decay::no_embeddings, "no_embeddings"}};
constexpr Named<ScheduleKind> kSchedules[] = {
    {ScheduleKind::constant, "constant"},     {ScheduleKind::linear, "linear"},
    {ScheduleKind::cosine, "cosine"},         {ScheduleKind::cosine_restarts, "cosine_restarts"},
    {ScheduleKind::triangular, "triangular"}, {ScheduleKind::triangular2, "triangular2"},
    {ScheduleKind::one_cycle, "one_cycle"},   {ScheduleKind::wsd, "wsd"},
    {ScheduleKind::polynomial, "polynomial"}, {ScheduleKind::plateau, "plateau"}};
constexpr Named<StopMetric> kStopMetrics[] = {{StopMetric::loss, "loss"}, {StopMetric::accuracy, "accuracy"}};
constexpr Named<RecomputePolicy> kRecompute[] = {
    {RecomputePolicy::automatic, "auto"}, {RecomputePolicy::none, "none"}, {RecomputePolicy::all, "all"}};
constexpr Named<RestPolicy> kPlaces[] = {
    {RestPolicy::automatic, "auto"}, {RestPolicy::memory, "memory"}, {RestPolicy::disk, "disk"}};
constexpr Named<DecayShape> kDecayShapes[] = {{DecayShape::linear, "linear"}, {DecayShape::sqrt, "sqrt"}};
constexpr Named<OnDivergence> kOnDivergence[] = {{OnDivergence::stop, "stop"}, {OnDivergence::proceed, "continue"}};
constexpr Named<Rounding> kRoundings[] = {{Rounding::stochastic, "stochastic"}, {Rounding::nearest, "nearest"}};
constexpr Named<TransferPolicy> kTransferPolicies[] = {{TransferPolicy::automatic, "auto"}, {TransferPolicy::threads, "threads"}};
constexpr auto kBaseFormats = [] {
  std::array<Named<BaseFormat>, std::size(kBaseFormatNames)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = {static_cast<BaseFormat>(i), kBaseFormatNames[i]};
  return all;
}();
constexpr Named<DeviceChoice> kDevices[] = {{DeviceChoice::cpu, "cpu"}, {DeviceChoice::sim, "sim"}, {DeviceChoice::cuda, "cuda"}};
constexpr double kMostRate = 1e15, kLeastClip = 1e-30;
constexpr std::int64_t kMostGrowth = 100;
constexpr double kLeastScale = 1, kMostScale = 0x1p40;
constexpr double kMostPixel = 256, kLeastDeviation = 1e-6;
constexpr std::int64_t kMostPadding = 1 << 10;
constexpr double kLeastFactor = 1e-6, kLeastPeak = 0.001, kLeastPower = 0.01, kMostPower = 100;

std::string paths_text(const DataPaths& paths) {
  if (paths.names.size() < 2) return paths.empty() ? "" : toml_text(paths.names.front().native());
  return names_text({paths.names.begin(), paths.names.end()});
}

// "2%", or paths.
void set_validation(Config& c, const Setting& s) {
  const auto* text = std::get_if<std::string>(&s.value);
  c.data.validation_share = 0;
  c.data.validation = {};
  if (text == nullptr || !text->ends_with('%')) {
    c.data.validation = paths(s);
    return;
  }
  double percent = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size() - 1, percent);
  if (error != std::errc{} || end != text->data() + text->size() - 1 || !(percent > 0 && percent < 100)) {
    throw type_error(s, "a share between 0% and 100%, or files");
  }
  c.data.validation_share = percent / 100;
}

std::string validation_text(const Config& c) {
  if (c.data.validation_share > 0) return toml_text(fmt::format("{:g}%", 100 * c.data.validation_share));
  return paths_text(c.data.validation);
}

DType precision(const Setting& s, std::string_view key, std::span<const DType> known) {
  const std::string name = text(s);
  std::string all;
  for (const DType each : known) {
    if (name == precision_name(each)) return each;
    all += fmt::format("{}\"{}\"", all.empty() ? "" : " or ", precision_name(each));
  }
  throw config_error("E-CONFIG-PRECISION", s.where, fmt::format("{} asks for {}, which is not available", s.name, name),
                     "available: " + all, {Change(std::string(key), "fp32")});
}

constexpr std::array kUsuallyAllowed{DType::f32, DType::bf16};

void set_compute(Config& c, const Setting& s) {
  if (!is_auto(s)) {
    c.precision.compute = precision(s, "precision.compute", kComputeTypes);
  } else if (!c.precision.allowed) {
    c.precision.allowed = std::vector<DType>(kUsuallyAllowed.begin(), kUsuallyAllowed.end());
  }
}

void set_allowed(Config& c, const Setting& s) {
  const auto* list = std::get_if<std::vector<std::string>>(&s.value);
  if (list == nullptr || list->empty()) throw type_error(s, "a list of precisions: [\"fp32\", \"bf16\"]");
  c.precision.allowed.emplace();
  for (const std::string& each : *list) {
    Setting one = s;
    one.value = each;
    c.precision.allowed->push_back(precision(one, "precision.compute", kComputeTypes));
  }
}

double power_of_two(const Setting& s) {
  const double value = number(s, kLeastScale, kMostScale);
  int exponent = 0;
  if (std::frexp(value, &exponent) == 0.5) return value;
  throw config_error("E-CONFIG-RANGE", s.where, fmt::format("{} is {}", s.name, s.text),
                     "a power of two, so that it changes no digit of a gradient", {Change("precision.loss_scale", 65536)});
}

bool is_scaled(const Config& c) { return c.precision.compute == DType::f16; }
bool is_narrow(const Config& c) { return c.precision.has_narrow_numbers(); }

template <class Field>
KeyAccess precision_at(std::string_view key, Field field, std::span<const DType> known) {
  return {[=](Config& c, const Setting& s) { field(c) = precision(s, key, known); },
          [=](const Config& c) { return toml_text(precision_name(field(c))); }};
}

bool waits_unusually(const Config& c) { return c.parallel != ParallelSettings(); }

void set_momentum_range(Config& c, const Setting& s) {
  c.schedule.momentum.reset();
  if (says_none(s)) return;
  const auto pair = numbers(s, 2, 0, kBelowOne);
  c.schedule.momentum = {pair[0], pair[1]};
}

std::string momentum_range_text(const Config& c) {
  const auto& pair = c.schedule.momentum;
  return pair ? fmt::format("[{}, {}]", shown((*pair)[0]), shown((*pair)[1])) : toml_text("none");
}

void set_disk(Config& c, const Setting& s) {
  const std::string value = text(s);
  if (value.empty()) {
    c.memory.disk.reset();
    return;
  }
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) throw type_error(s, "a folder, a colon and a size: \"/scratch:20GiB\"");
  Setting folder = s;
  folder.value = value.substr(0, colon);
  c.memory.disk = DiskBudget{path(folder), parse_bytes(value.substr(colon + 1), fmt::format("{} {}", s.where, s.name))};
}

std::string disk_text(const Config& c) {
  if (!c.memory.disk) return "";
  return toml_text(fmt::format("{}:{}", c.memory.disk->folder.native(), c.memory.disk->size.n));
}

// A number without a unit counts bytes. A small one is most likely a mistake.
void set_size(Config& c, std::optional<Bytes>& out, const Setting& s) {
  constexpr std::int64_t kFew = 1 << 20;
  out.reset();
  if (is_auto(s)) return;
  out = size(s, total_memory().bytes);
  const bool digits = s.text.find_first_not_of("0123456789'\"") == std::string::npos;
  if (digits && out->n > 0 && out->n < kFew) {
    c.notes.push_back(fmt::format("{}: {} = {} is {} bytes; did you mean {}MiB?", s.where, s.name, s.text, out->n, out->n));
  } else if (s.text.find('%') != std::string::npos) {
    c.notes.push_back(fmt::format("{}: {} = {} is {} of this machine's memory", s.where, s.name, s.text, to_text(*out)));
  }
}

template <class Field>
KeyAccess size_at(Field field) {
  return {[=](Config& c, const Setting& s) { set_size(c, field(c), s); },
          [=](const Config& c) { return field(c) ? shown(field(c)->n) : std::string(); }};
}

// True unless the model is known to read something else.
bool reads_tokens(const Config& c) { return c.model.config.empty() || facts_of(c.model.config).vocab > 0; }
bool reads_images(const Config& c) { return data_kind(c.data.format).pixels; }

// One number, or a list of up to four. Without numbers, the key is not written.
template <class Field>
KeyAccess numbers_by_channel(Field field, double low, double high) {
  return {[=](Config& c, const Setting& s) {
            const auto* list = std::get_if<std::vector<double>>(&s.value);
            const std::size_t most = 4, count = list == nullptr ? 1 : list->size();
            if (count == 0 || count > most) throw type_error(s, "a number, or a list of one for each channel");
            field(c) = list == nullptr ? std::vector{number(s, low, high)} : numbers(s, count, low, high);
          },
          [=](const Config& c) {
            std::string text;
            for (const double value : field(c)) text += fmt::format("{}{}", text.empty() ? "" : ", ", shown(value));
            return text.empty() ? text : fmt::format("[{}]", text);
          }};
}

using C = Config;
using S = Setting;
using Text = std::string;

constexpr std::array<std::string_view, 2> kStatistics{"batch", "running"};

constexpr std::string_view kContextKey = "model.context", kFirstAfterAdapters = "data.train";

// All keys but those of families and adapters.
const ConfigKey kKeys[] = {
    {"seed", OnResume::forced, "seeds data order, dropout and new weights", "1", whole_at(PLIMSOLL_FIELD(seed), 0, kMaxSeed)},

    {"model.preset", OnResume::never, "a shape by name", "\"gpt2\"", set_preset,
     [](const C& c) { return c.model.preset.empty() ? Text() : toml_text(c.model.preset); }},
    {"model.init", OnResume::place, "\"random\", or a Hugging Face folder or GGUF file, which brings the shape", "\"random\"",
     set_init, [](const C& c) { return c.model.init.empty() ? Text("\"random\"") : toml_text(c.model.init.native()); }},
    {"model.kind", OnResume::never, "the architecture", "\"gpt2\"", set_kind, kind_text},
    {kContextKey, OnResume::never, "tokens of a sample", "1024",
     written_if(reads_tokens, whole_at(PLIMSOLL_FIELD(model.context), 1, kMaxContext))},

    {"model.freeze", OnResume::never,
     "parameters that are not trained: regular expressions for whole names, or for modules that hold them",
     "[\"wte\", \"h\\\\.[0-5]\"]", key_at(PLIMSOLL_FIELD(model.freeze), names, unless_empty)},

    {"data.train", OnResume::place, "a text file or a file of tokens; a list, a pattern (\"texts/*.txt\") or a folder of them",
     "\"train.txt\"", key_at(PLIMSOLL_FIELD(data.train), paths, paths_text)},
    {"data.format", OnResume::forced,
     "auto, bytes, u16 or u32 (raw tokens), llmc (either, with a header), bpe (text, by data.vocabulary), chat (JSON samples); "
     "of images idx, cifar10, cifar100",
     "\"auto\"",
     key_at(
         PLIMSOLL_FIELD(data.format), [](const S& s) { return kDataFormats[choice(s, kDataFormats)]; },
         [](std::string_view name) { return toml_text(name); })},
    {"data.validation", OnResume::place,
     "like train, never trained on; or of JSON samples and images a share (\"2%\"), chosen by content; without it "
     "there is no loss",
     "\"validation.txt\"", set_validation, validation_text},
    {"data.labels", OnResume::place, "idx: the labels of the images in data.train, a file for each file of images",
     "\"train-labels-idx1-ubyte.gz\"", key_at(PLIMSOLL_FIELD(data.labels), paths, paths_text)},
    {"data.validation_labels", OnResume::place, "idx: the labels of the images in data.validation",
     "\"t10k-labels-idx1-ubyte.gz\"", key_at(PLIMSOLL_FIELD(data.validation_labels), paths, paths_text)},
    {"data.template", OnResume::forced, "chat: a file with the chat template, instead of that of the model's folder",
     "\"template.jinja\"", key_at(PLIMSOLL_FIELD(data.chat_template), path)},
    {"data.loss", OnResume::forced, "chat: which turns are trained on: assistant, last (the last of these), all (every token)",
     "\"assistant\"", name_at(PLIMSOLL_FIELD(data.loss), kTrainedTurns), /*in_loss=*/true},
    {"data.too_long", OnResume::forced,
     "chat: samples longer than model.context: split, cut_begin, cut_end, drop; auto: texts are split, conversations lose the "
     "end",
     "\"auto\"", name_at(PLIMSOLL_FIELD(data.too_long), kLongSamples)},
    {"data.order", OnResume::forced, "shuffled (anew in each epoch, by the seed) or sequential", "\"shuffled\"",
     name_at(PLIMSOLL_FIELD(data.order), kOrders)},
    {"data.vocabulary", OnResume::place,
     "folder with tokenizer.json, or vocab.json and merges.txt, for text that is not read as bytes", "\"gpt2\"",
     key_at(PLIMSOLL_FIELD(data.vocabulary), path)},

    {"image.mean", OnResume::forced,
     "images: subtracted from pixels of 0 to 1, by channel or one number for all; absent: those of the model, else 0.5", "[0.5]",
     numbers_by_channel(PLIMSOLL_FIELD(image.mean), -kMostPixel, kMostPixel)},
    {"image.std", OnResume::forced, "images: pixels are divided by it after that, by channel or one number for all", "[0.5]",
     numbers_by_channel(PLIMSOLL_FIELD(image.std), kLeastDeviation, kMostPixel)},
    {"image.pad_crop", OnResume::forced, "images, in training: random crops after as many pixels of black on each side; 0: none",
     "4", written_if(reads_images, whole_at(PLIMSOLL_FIELD(image.pad_crop), 0, kMostPadding))},
    {"image.flip", OnResume::forced, "images, in training: half of them are mirrored left to right", "true",
     written_if(reads_images, key_at(PLIMSOLL_FIELD(image.flip), flag))},

    {"batch.packing", OnResume::free, "chat: several samples share a row of model.context tokens; none sees another one", "false",
     key_at(PLIMSOLL_FIELD(batch.packing), flag)},
    {"batch.tokens", OnResume::free, "tokens of a micro-batch at most, padding included; 0: no bound", "8192",
     whole_at(PLIMSOLL_FIELD(batch.tokens), 0, kMaxTokens)},

    {"norm.stat_batch", OnResume::never,
     "batch norm: consecutive samples that share a mean and a variance; auto: the micro-batch if it is given, else the largest "
     "divisor of effective_batch up to 32",
     "\"auto\"", whole_or_auto_at(PLIMSOLL_FIELD(norm.stat_batch), 1, kMaxBatch)},
    {"norm.statistics", OnResume::never,
     "batch norm: batch (of stat_batch samples), or running (those of the folder, which then do not move)", "\"batch\"",
     [](C& c, const S& s) { c.norm.running = choice(s, kStatistics) == 1; },
     [](const C& c) { return toml_text(kStatistics[c.norm.running ? 1 : 0]); }},
    {"norm.momentum", OnResume::results, "batch norm: share of an update's statistics in the running ones", "0.1",
     number_at(PLIMSOLL_FIELD(norm.momentum), kAboveZero, 1)},

    {"train.effective_batch", OnResume::never, "samples of an update: micro_batch x accumulation", "32",
     [](C& c, const S& s) { c.train.effective_batch = whole_or_auto(s, 1, kMaxBatch).value_or(0); },
     [](const C& c) { return c.train.effective_tokens > 0 ? Text() : shown(c.train.effective_batch); }},
    {"train.effective_tokens", OnResume::never,
     "instead of effective_batch: an update has as many samples as these tokens hold; 0: off", "65536",
     whole_at(PLIMSOLL_FIELD(train.effective_tokens), 0, kMaxTokens)},
    {"train.micro_batch", OnResume::free, "samples that are computed at a time; auto: the fastest that fits", "\"auto\"",
     whole_or_auto_at(PLIMSOLL_FIELD(train.micro_batch), 1, kMaxBatch)},
    {"train.accumulation", OnResume::free, "micro-batches of an update", "\"auto\"",
     whole_or_auto_at(PLIMSOLL_FIELD(train.accumulation), 1, kMaxBatch)},
    {"train.updates", OnResume::results, "length of the run, and of its schedule", "100",
     whole_at(PLIMSOLL_FIELD(train.updates), 1, kMaxUpdates)},
    {"train.epochs", OnResume::results, "the number of passes over the data, instead of updates; the last update has the rest",
     "3",
     [](C& c, const S& s) {
       c.train.epochs.reset();
       if (!says_none(s)) c.train.epochs = number(s, kLeastEpochs, kMostEpochs);
     },
     [](const C& c) { return c.train.epochs ? shown(*c.train.epochs) : Text(); }},
    {"train.gradient_clip", OnResume::results,
     "maximum global gradient norm; larger gradients are scaled down to it; 0: no clipping", "1.0",
     number_at(PLIMSOLL_FIELD(train.gradient_clip), 0, 1e30)},
    {"train.gradient_clip_value", OnResume::results,
     "clamps each element of a gradient to plus or minus this value; needs gradient_clip = 0; 0: off", "0.5",
     key_at(PLIMSOLL_FIELD(train.gradient_clip_value),
            [](const S& s) { return number(s, number(s, 0, 1e30) > 0 ? kLeastClip : 0, 1e30); })},
    {"train.label_smoothing", OnResume::results,
     "label smoothing as in PyTorch's cross_entropy; not in validation losses; 0: off", "0.1",
     number_at(PLIMSOLL_FIELD(train.label_smoothing), 0, kBelowOne), /*in_loss=*/true},
    {"train.z_loss", OnResume::results,
     "adds z_loss * logsumexp(logits)^2 to the training loss, which keeps logits small; 0: off", "1e-4",
     number_at(PLIMSOLL_FIELD(train.z_loss), 0, 1), /*in_loss=*/true},
    {"train.evaluate_every", OnResume::free,
     "between validation losses: a number of updates, or a length as in \"5%\" or \"4000samples\"; 0: at the end only", "0",
     updates_or_length_at(PLIMSOLL_FIELD(train.evaluate_every))},
    {"train.evaluate_samples", OnResume::free, "samples of a validation loss; 0: all", "0",
     whole_at(PLIMSOLL_FIELD(train.evaluate_samples), 0, kMaxUpdates)},
    {"train.show_samples", OnResume::free,
     "held-out prompts that each evaluation answers (samples.jsonl); auto: 2 for conversations with validation data, else 0", "2",
     whole_or_auto_at(PLIMSOLL_FIELD(train.show_samples), 0, kMostShown)},
    {"train.on_divergence", OnResume::free, "when the loss diverges: stop or continue; a warning is printed in both cases",
     "\"stop\"", name_at(PLIMSOLL_FIELD(train.on_divergence), kOnDivergence)},

    {"save.every", OnResume::free,
     "between checkpoints: a time (\"90s\", \"10m\", \"2h\") or a number of updates; 0: at the end only", "\"10m\"",
     key_at(PLIMSOLL_FIELD(save.every), save_interval, save_text)},
    {"save.keep_last", OnResume::free, "checkpoints that are kept; with one, its successor is written beside it", "2",
     whole_at(PLIMSOLL_FIELD(save.keep_last), 1, kMaxKept)},
    {"save.keep_best", OnResume::free, "checkpoints of the best evaluations that are kept as well, saved at the evaluation", "0",
     whole_at(PLIMSOLL_FIELD(save.keep_best), 0, kMaxKept)},
    {"save.keep_every", OnResume::free, "a checkpoint at each multiple of this length is saved and kept; 0: off", "\"25%\"",
     updates_or_length_at(PLIMSOLL_FIELD(save.keep_every))},
    {"save.best_weights", OnResume::free,
     "keeps the weights with the lowest validation loss in weights_best, if the run evaluates on the way", "true",
     key_at(PLIMSOLL_FIELD(save.best_weights), flag)},

    {"stop.patience", OnResume::results,
     "early stopping: the run ends at an evaluation that comes this length after the last improvement; 0: off", "\"20%\"",
     updates_or_length_at(PLIMSOLL_FIELD(stop.patience))},
    {"stop.min_delta", OnResume::results, "how far below the last improvement a loss has to lie to be one (nats)", "0.0",
     number_at(PLIMSOLL_FIELD(stop.min_delta), 0, 1e6)},
    {"stop.metric", OnResume::results, "decides on the best weights and on stopping: loss, or accuracy where there are classes",
     "\"loss\"", name_at(PLIMSOLL_FIELD(stop.metric), kStopMetrics)},

    {"records.report", OnResume::free, "writes report.html, a page to look at, into the folder of the run at its end", "true",
     key_at(PLIMSOLL_FIELD(records.report), flag)},

    {"optimizer.name", OnResume::never,
     "adamw, lion (half of its state), sgd, or adafactor (a second moment by rows and columns: next to no state)", "\"adamw\"",
     name_at(PLIMSOLL_FIELD(optimizer.kind), kOptimizers, "optimizer.name")},
    {"optimizer.learning_rate", OnResume::results, "the peak of the schedule", "3e-4",
     number_at(PLIMSOLL_FIELD(optimizer.learning_rate), 0, 1e38)},
    {"optimizer.betas", OnResume::results, "adamw: beta1 and beta2; lion: beta1 of the update direction, beta2 of the momentum",
     "[0.9, 0.95]",
     [](C& c, const S& s) {
       const auto betas = numbers(s, 2, 0, kBelowOne);
       c.optimizer.beta1 = betas[0];
       c.optimizer.beta2 = betas[1];
     },
     [](const C& c) {
       if (c.optimizer.half_lives) return Text();
       return fmt::format("[{}, {}]", shown(c.optimizer.beta1), shown(c.optimizer.beta2));
     }},
    {"optimizer.half_lives", OnResume::results,
     "replaces betas: half-lives of the first and the second moment; the betas follow from the batch size",
     "[\"200samples\", \"400samples\"]", set_half_lives, half_lives_text},
    {"optimizer.epsilon", OnResume::results, "adamw: added to the square root of the second moment", "1e-8",
     number_at(PLIMSOLL_FIELD(optimizer.epsilon), 1e-30, 1)},
    {"optimizer.weight_decay", OnResume::results,
     "decoupled weight decay: each update takes learning_rate * weight_decay * weight off", "0.1",
     number_at(PLIMSOLL_FIELD(optimizer.weight_decay), 0, 1e3)},
    {"optimizer.decay", OnResume::results,
     "the decayed parameters: matrices (embeddings included), all, or no_embeddings (the other matrices)", "\"matrices\"",
     name_at(PLIMSOLL_FIELD(optimizer.decay), kDecays)},
    {"optimizer.momentum", OnResume::results, "sgd only", "0.0", number_at(PLIMSOLL_FIELD(optimizer.momentum), 0, kBelowOne)},
    {"optimizer.nesterov", OnResume::results, "sgd only: look ahead along the momentum", "false",
     key_at(PLIMSOLL_FIELD(optimizer.nesterov), flag)},
    {"optimizer.ema_half_life", OnResume::results,
     "half-life of an EMA of the weights: after this length an update counts half; \"none\": no EMA", "\"1000updates\"",
     [](C& c, const S& s) {
       c.optimizer.ema_half_life.reset();
       if (!says_none(s)) c.optimizer.ema_half_life = duration(c, s);
     },
     [](const C& c) { return toml_text(c.optimizer.ema_half_life ? to_text(*c.optimizer.ema_half_life) : "none"); }},

    {"schedule.name", OnResume::results,
     "shape of the learning rate: constant, linear, cosine, cosine_restarts, triangular, triangular2, one_cycle, wsd, "
     "polynomial, "
     "plateau",
     "\"cosine\"", name_at(PLIMSOLL_FIELD(schedule.kind), kSchedules, "schedule.name")},
    {"schedule.warmup", OnResume::results,
     "rises from near 0 over this length: \"100updates\", \"20000samples\", \"1Mtokens\", \"3%\"", "\"100updates\"",
     length_at(PLIMSOLL_FIELD(schedule.warmup))},
    {"schedule.final_fraction", OnResume::results, "final rate / peak rate; with cycles: lowest rate of a cycle / peak rate",
     "0.1", number_at(PLIMSOLL_FIELD(schedule.final_fraction), 0, 1)},
    {"schedule.cycle", OnResume::results, "cosine_restarts: length of the first cycle; triangular: length of every cycle",
     "\"25%\"", length_at(PLIMSOLL_FIELD(schedule.cycle))},
    {"schedule.cycle_growth", OnResume::results, "cosine_restarts: length of a cycle / length of the cycle before it", "1",
     whole_at(PLIMSOLL_FIELD(schedule.cycle_growth), 1, kMostGrowth)},
    {"schedule.start_fraction", OnResume::results, "one_cycle: initial rate / peak rate", "0.04",
     number_at(PLIMSOLL_FIELD(schedule.start_fraction), 0, 1)},
    {"schedule.peak_at", OnResume::results, "one_cycle: the share of the run in which the rate rises", "0.3",
     number_at(PLIMSOLL_FIELD(schedule.peak_at), kLeastPeak, 1 - kLeastPeak)},
    {"schedule.decay_length", OnResume::results, "wsd: how long the rate falls, at the end of the run", "\"20%\"",
     length_at(PLIMSOLL_FIELD(schedule.decay))},
    {"schedule.decay_shape", OnResume::results, "wsd: linear, or sqrt, which falls faster at first", "\"sqrt\"",
     name_at(PLIMSOLL_FIELD(schedule.decay_shape), kDecayShapes)},
    {"schedule.power", OnResume::results, "polynomial: exponent; the rate falls as (remaining share of the run)^power", "1.0",
     number_at(PLIMSOLL_FIELD(schedule.power), kLeastPower, kMostPower)},
    {"schedule.patience", OnResume::results,
     "plateau: after this length without a lower validation loss the rate falls, and the count begins anew", "\"10%\"",
     length_at(PLIMSOLL_FIELD(schedule.patience))},
    {"schedule.factor", OnResume::results, "plateau: next rate / rate; final_fraction bounds the fall", "0.1",
     number_at(PLIMSOLL_FIELD(schedule.factor), kLeastFactor, kBelowOne)},
    {"schedule.momentum_range", OnResume::results,
     "one_cycle, triangular: momentum (beta1 of adamw and lion) at the lowest and at the highest rate; \"none\": constant",
     "[0.95, 0.85]", set_momentum_range, momentum_range_text},

    {"plan.recompute", OnResume::free, "auto, none (keep every activation) or all", "\"auto\"",
     name_at(PLIMSOLL_FIELD(plan.recompute), kRecompute)},
    {"plan.group", OnResume::free,
     "micro-batches that run through one block before the next block starts; changes memory and transfers, not results",
     "\"auto\"", whole_or_auto_at(PLIMSOLL_FIELD(plan.group), 1, kMostGroup)},
    {"plan.loss_chunks", OnResume::free, "number of parts in which the logits are computed; changes memory, not results",
     "\"auto\"", whole_or_auto_at(PLIMSOLL_FIELD(plan.loss_chunks), 1, 1 << 20)},
    {"plan.optimizer_state", OnResume::free, "where the optimizer state is kept: auto, memory or disk (memory.disk)", "\"auto\"",
     name_at(PLIMSOLL_FIELD(plan.optimizer_state), kPlaces)},
    {"plan.parameters", OnResume::free,
     "where the weights of the blocks and of large embedding tables are kept: auto, memory or disk", "\"auto\"",
     name_at(PLIMSOLL_FIELD(plan.parameters), kPlaces)},
    {"plan.gradients", OnResume::free,
     "where the accumulated gradients of the blocks and of large embedding tables are kept: auto, memory or disk", "\"auto\"",
     name_at(PLIMSOLL_FIELD(plan.gradients), kPlaces)},
    {"plan.activations", OnResume::free,
     "where the inputs of the first blocks wait for the backward pass: auto, memory or disk; these blocks recompute the rest",
     "\"auto\"", name_at(PLIMSOLL_FIELD(plan.activations), kPlaces)},
    {"plan.transfers", OnResume::free, "to and from the disk: auto (io_uring where the system allows it) or threads", "\"auto\"",
     name_at(PLIMSOLL_FIELD(plan.transfers), kTransferPolicies)},

    {"memory.budget", OnResume::free, "bytes of the whole process; the command line wins", "\"2GiB\"",
     size_at(PLIMSOLL_FIELD(memory.budget))},
    {"memory.host_memory", OnResume::free, "budget for the memory of the host, where the model trains on a device (cuda, sim)",
     "\"8GiB\"", size_at(PLIMSOLL_FIELD(memory.host_memory))},
    {"memory.disk", OnResume::place, "a folder and how many bytes may be stored there", "\"/scratch:20GiB\"", set_disk,
     disk_text},

    {"precision.compute", OnResume::forced,
     "fp32, bf16, fp16 or auto; bf16 and fp16 round the inputs of matrix products, sums stay fp32", "\"bf16\"", set_compute,
     [](const C& c) { return toml_text(precision_name(c.precision.compute)); }},
    {"precision.allow", OnResume::results, "the choices of compute = \"auto\"; it takes the fastest of this processor",
     "[\"fp32\", \"bf16\"]", set_allowed, [](const C&) { return Text(); }},
    {"precision.parameters", OnResume::never,
     "fp32 or bf16; bf16 needs compute = \"bf16\" and stores matrices and embeddings without an fp32 copy", "\"bf16\"",
     precision_at("precision.parameters", PLIMSOLL_FIELD(precision.parameters), kRoundedTypes)},
    {"precision.gradients", OnResume::forced,
     "accumulated gradients: fp32, or bf16 for the matrices of blocks, rounded after each micro-batch", "\"bf16\"",
     precision_at("precision.gradients", PLIMSOLL_FIELD(precision.gradients), kRoundedTypes)},
    {"precision.optimizer_state", OnResume::results, "fp32, bf16 or 8bit; the narrow ones are rounded at each update", "\"bf16\"",
     precision_at("precision.optimizer_state", PLIMSOLL_FIELD(precision.optimizer_state), kStateTypes)},
    {"precision.rounding", OnResume::results,
     "rounding of stored bf16 and 8-bit numbers: stochastic (keeps small updates on average) or nearest (needs force_nearest)",
     "\"stochastic\"", written_if(is_narrow, name_at(PLIMSOLL_FIELD(precision.rounding), kRoundings))},
    {"precision.force_nearest", OnResume::results, "true allows rounding = \"nearest\", which loses small updates", "false",
     written_if(is_narrow, key_at(PLIMSOLL_FIELD(precision.force_nearest), flag))},
    {"precision.loss_scale", OnResume::results, "fp16: initial loss scale; it is halved on overflow", "65536.0",
     written_if(is_scaled, key_at(PLIMSOLL_FIELD(precision.loss_scale), power_of_two))},
    {"precision.loss_scale_growth", OnResume::results, "fp16: the loss scale doubles after this length without an overflow",
     "\"2000updates\"", written_if(is_scaled, length_at(PLIMSOLL_FIELD(precision.loss_scale_growth)))},

    {"parallel.zero", OnResume::free,
     "with several ranks: auto, or the stage of ZeRO: 1 shares the optimizer's state among them; 2 and 3 are not there yet",
     "\"auto\"", written_if(waits_unusually, whole_or_auto_at(PLIMSOLL_FIELD(parallel.zero), 1, 3))},
    {"parallel.fail_after", OnResume::free, "with several ranks: the longest wait for the answer of another one", "\"10m\"",
     written_if(waits_unusually, key_at(PLIMSOLL_FIELD(parallel.fail_after), wait_seconds, seconds_text))},

    {"quantize.base", OnResume::never,
     "how frozen linear layers are stored: none (fp32), bf16, int8, nf4 (4 bits, with nested scales), or file (each as its file "
     "stores it)",
     "\"nf4\"", name_at(PLIMSOLL_FIELD(base), kBaseFormats)},

    {"machine.threads", OnResume::results, "0: all usable cores", "0",
     key_at(PLIMSOLL_FIELD(threads), [](const S& s) { return static_cast<int>(whole(s, 0, kMaxThreads)); })},
    {"machine.device", OnResume::free, "cpu, cuda (a GPU) or sim (simulates a GPU: a part of the RAM is its memory)", "\"cpu\"",
     name_at(PLIMSOLL_FIELD(device), kDevices)},
    {"machine.unverified", OnResume::free, "cuda: although not all of its tests have passed on a GPU", "false",
     key_at(PLIMSOLL_FIELD(unverified), flag)},
    {"machine.gpu_graphs", OnResume::free,
     "cuda: kernels are launched as graphs; false: one by one, each waited for, with the same bits", "true",
     key_at(PLIMSOLL_FIELD(gpu_graphs), flag)},
    {"machine.host_bytes_per_second", OnResume::free, "sim: speed of the link between device and host, each way; 0: unlimited",
     "0", number_at(PLIMSOLL_FIELD(links.host), 0, kMostRate)},
    {"machine.disk_bytes_per_second", OnResume::free, "sim: speed of the disk, each way; 0: unlimited", "0",
     number_at(PLIMSOLL_FIELD(links.disk), 0, kMostRate)},
};

std::vector<ConfigKey> all_keys() {
  std::vector<ConfigKey> keys;
  const auto add_models = [&](bool sizes) {
    for (ConfigKey& key : model_keys(sizes)) keys.push_back(std::move(key));
  };
  for (const ConfigKey& key : kKeys) {
    if (key.name == kContextKey) add_models(/*sizes=*/true);
    if (key.name == kFirstAfterAdapters) {
      for (ConfigKey& one : adapter_keys()) keys.push_back(std::move(one));
    }
    keys.push_back(key);
    if (key.name == "model.preset") keys.back().comment = preset_comment();
    if (key.name == kContextKey) add_models(/*sizes=*/false);
  }
  return keys;
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> keys = all_keys();
  return keys;
}

std::string_view optimizer_name(OptimizerKind kind) {
  return std::ranges::find(kOptimizers, kind, &Named<OptimizerKind>::value)->name;
}

const ConfigKey& config_key(std::string_view name) {
  for (const ConfigKey& key : config_keys()) {
    if (key.name == name) return key;
  }
  throw internal_error("configuration", "no key " + std::string(name));
}

Config KeySetting::alone() const {
  Config config;
  set(config, setting);
  return config;
}

std::string_view section_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view leaf_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace plimsoll
