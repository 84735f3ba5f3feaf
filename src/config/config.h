// The configuration of a run as one typed struct. It is parsed once, from a TOML file, then from the settings of the command
// line; the last one wins. Every default is filled in and every rule between keys is checked, so no later stage parses a key or a
// text again. Mistakes throw config_error, codes E-CONFIG-* and E-BATCH-3, with file and line.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "autodiff/frozen_base.h"
#include "autodiff/training.h"
#include "base/bytes.h"
#include "config/schedule.h"
#include "data/data_paths.h"
#include "data/order.h"
#include "data/sample_rules.h"
#include "device/disk/disk_budget.h"
#include "device/link_rates.h"
#include "models/model_config.h"
#include "plan/request.h"
#include "settings/setting.h"

namespace plimsoll {

struct ModelSettings {
  std::string preset;               // "" if keys or a folder give the shape
  std::filesystem::path init;       // a Hugging Face folder; empty: random weights
  ModelConfig config;               // from a preset, a folder, or its keys
  std::int64_t context = 0;         // tokens of a sample, at most the positions of the model
  std::vector<std::string> freeze;  // regular expressions for names of parameters and modules
  bool open_classes = false;        // the classes of a new head follow from the data, and are not known yet

  friend bool operator==(const ModelSettings&, const ModelSettings&) = default;
};

// Batch normalisation.
struct NormSettings {
  std::optional<std::int64_t> stat_batch;  // samples that share statistics; absent: stat_batch() decides
  bool running = false;                    // normalise by the running statistics, which do not move
  double momentum = 0.1;                   // share of a window in the running statistics

  friend bool operator==(const NormSettings&, const NormSettings&) = default;
};

struct DataSettings {
  DataPaths train, validation;          // validation may be empty
  DataPaths labels, validation_labels;  // labels of images in files of their own; may be empty
  double validation_share = 0;          // held-out share of the training data; 0: none
  std::string format = "auto";          // one of kDataFormats
  std::filesystem::path chat_template;  // empty: that of the vocabulary's folder
  TrainedTurns loss = TrainedTurns::assistant;
  LongSamples too_long = LongSamples::automatic;
  OrderKind order = OrderKind::shuffled;
  std::filesystem::path vocabulary;  // folder of vocab.json and merges.txt; may be empty

  friend bool operator==(const DataSettings&, const DataSettings&) = default;
};

// The treatment of the pixels of images.
struct ImageSettings {
  std::vector<double> mean, std;  // by channel, or one number for all; empty: those of the model
  std::int64_t pad_crop = 0;      // pixels of black on each side, before a random crop to the former size
  bool flip = false;              // half of the images are mirrored

  friend bool operator==(const ImageSettings&, const ImageSettings&) = default;
};

enum class OnDivergence : std::uint8_t { stop, proceed };  // numbers that are not finite stop a run in any case

// The interval between checkpoints, in updates or in seconds. If both are 0, the only checkpoint is made at the end.
struct SaveInterval {
  std::int64_t updates = 0, seconds = 600;

  friend bool operator==(const SaveInterval&, const SaveInterval&) = default;
};

struct SaveSettings {
  SaveInterval every;
  bool best_weights = true;                   // of a run that evaluates on the way
  std::int64_t keep_last = 2, keep_best = 0;  // checkpoints; the best ones are saved at their evaluations
  Duration keep_every;                        // checkpoints at its multiples stay; 0: none

  friend bool operator==(const SaveSettings&, const SaveSettings&) = default;
};

// The number of an evaluation that decides on the best weights and on early stopping.
enum class StopMetric : std::uint8_t { loss, accuracy };

// Several processes that train together.
struct ParallelSettings {
  std::optional<std::int64_t> zero;  // stage of ZeRO, 1 to 3; absent: the planner's choice
  std::int64_t fail_after = 600;     // seconds without an answer of another rank

  friend bool operator==(const ParallelSettings&, const ParallelSettings&) = default;
};

struct StopSettings {
  Duration patience;     // without an improvement; 0: no early stopping
  double min_delta = 0;  // of an improvement, in nats, or as a share of the samples
  StopMetric metric = StopMetric::loss;

  friend bool operator==(const StopSettings&, const StopSettings&) = default;
};

struct BatchSettings {
  std::int64_t tokens = 0;  // maximum tokens of a micro-batch, padding included; 0: no bound
  bool packing = false;     // rows hold several samples

  friend bool operator==(const BatchSettings&, const BatchSettings&) = default;
};

struct TrainSettings {
  std::int64_t effective_batch = 0;                       // samples of an update; with effective_tokens: samples of full context
  std::int64_t effective_tokens = 0;                      // maximum tokens of an update; 0: updates have a number of samples
  std::optional<std::int64_t> micro_batch, accumulation;  // both or none; none: the planner's choice
  std::int64_t updates = 100;
  std::optional<double> epochs;    // passes over the data
  bool open = false;               // the number of updates follows from epochs, and is not known yet
  double gradient_clip = 1.0;      // maximum global norm; 0: no clipping
  double gradient_clip_value = 0;  // maximum magnitude of each element; 0: no clipping
  double label_smoothing = 0, z_loss = 0;
  Duration evaluate_every;                   // between evaluations; 0: at the end only
  std::int64_t evaluate_samples = 0;         // samples of an evaluation; 0: all of data.validation
  std::optional<std::int64_t> show_samples;  // held-out prompts that each evaluation answers; absent: see shown_samples()
  OnDivergence on_divergence = OnDivergence::stop;

  friend bool operator==(const TrainSettings&, const TrainSettings&) = default;
};

using OptimizerKind = OptimizerSettings::Kind;

struct OptimizerChoice {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 0;  // the peak
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  std::optional<std::array<Duration, 2>> half_lives;  // given in place of betas
  double weight_decay = 0;
  OptimizerSettings::Decay decay = OptimizerSettings::Decay::matrices;
  double momentum = 0;
  bool nesterov = false;
  std::optional<Duration> ema_half_life;

  friend bool operator==(const OptimizerChoice&, const OptimizerChoice&) = default;
};

struct PlanSettings {
  RecomputePolicy recompute = RecomputePolicy::automatic;
  std::optional<std::int64_t> group;        // absent: the planner's choice
  std::optional<std::int64_t> loss_chunks;  // absent: the planner's choice
  RestPolicy optimizer_state = RestPolicy::automatic, parameters = RestPolicy::automatic, gradients = RestPolicy::automatic;
  RestPolicy activations = RestPolicy::automatic;
  TransferPolicy transfers = TransferPolicy::automatic;

  friend bool operator==(const PlanSettings&, const PlanSettings&) = default;
};

struct MemorySettings {
  std::optional<Bytes> budget, host_memory;
  std::optional<DiskBudget> disk;

  friend bool operator==(const MemorySettings&, const MemorySettings&) = default;
};

// The device of the kernels: this computer, a simulated device with a part of its memory, or a GPU.
enum class DeviceChoice : std::uint8_t { cpu, sim, cuda };

// The rounding of sums that are narrower than fp32.
enum class Rounding : std::uint8_t { stochastic, nearest };

struct PrecisionSettings {
  DType compute = DType::f32, parameters = DType::f32, gradients = DType::f32, optimizer_state = DType::f32;
  std::optional<std::vector<DType>> allowed;  // the choices for compute; absent after loading
  Rounding rounding = Rounding::stochastic;
  bool force_nearest = false;            // permits nearest
  double loss_scale = 65536;             // fp16: initial scale
  Duration loss_scale_growth{2000, {}};  // fp16: length without overflow after which the scale doubles

  // True if stored numbers are narrower than fp32, so that sums are rounded.
  bool has_narrow_numbers() const { return parameters != DType::f32 || gradients != DType::f32 || optimizer_state != DType::f32; }
  friend bool operator==(const PrecisionSettings&, const PrecisionSettings&) = default;
};
// The name in configurations and plans: "fp32", "bf16", "8bit".
std::string_view precision_name(DType dtype);

struct RecordSettings {
  bool report = true;  // the page of the run is written at its end

  friend bool operator==(const RecordSettings&, const RecordSettings&) = default;
};

struct Config {
  std::int64_t seed = 1;
  ModelSettings model;
  AdapterSettings adapter;
  DataSettings data;
  ImageSettings image;
  BatchSettings batch;
  NormSettings norm;
  TrainSettings train;
  SaveSettings save;
  StopSettings stop;
  RecordSettings records;
  OptimizerChoice optimizer;
  Schedule schedule;
  PlanSettings plan;
  MemorySettings memory;
  ParallelSettings parallel;
  PrecisionSettings precision;
  BaseFormat base = BaseFormat::none;  // [quantize]: how frozen linear layers are stored
  int threads = 0;                     // [machine]; at least 1 after loading
  DeviceChoice device = DeviceChoice::cpu;
  LinkRates links;
  bool unverified = false;  // permits a device without a complete proof
  bool gpu_graphs = true;   // a GPU gets whole sections instead of single kernels

  // Notes for the user, no part of the configuration: names of other programs that were understood, and doubtful choices.
  std::vector<std::string> notes;

  // Compares everything but the notes.
  friend bool operator==(const Config& a, const Config& b);
};

// The speed of bf16 products on the machine of a configuration: faster than fp32 or not, with the reason in words.
struct Bf16Speed {
  bool fast = false;
  std::string reason;
};
Bf16Speed bf16_speed_here();

// Reads `path`, then the typed settings in order. Paths in the file are relative to its folder, others to the current one; all
// are absolute afterwards. Reads config.json of an init folder, and no data. `bf16` decides precision.compute = "auto".
Config load_config(const std::filesystem::path& path, std::vector<Setting> typed = {}, const Bf16Speed& bf16 = bf16_speed_here());

// The configuration with further keys set. The rules between keys are not applied again.
Config with_changes(Config config, std::span<const Change> changes);

// The TOML text of every key, defaults included: the content of config.resolved.toml. load_config reads an equal Config from it.
std::string resolved_toml(const Config& config);

// 32 hex digits over resolved_toml.
std::string config_hash(const Config& config);

RunLength run_length(const Config& config);
// The updates between evaluations; 0: at the end only.
std::int64_t evaluation_interval(const Config& config);
bool has_validation(const Config& config);
// train.show_samples: 2 for conversations with validation data, else 0, if it is not given.
std::int64_t shown_samples(const Config& config);
// True if the run evaluates on the way, and the weights of the best evaluation are kept.
bool keeps_best_weights(const Config& config);
// The rate of an update after `samples_before` samples; see Schedule.
double learning_rate_at(const Config& config, std::int64_t samples_before);
// The momentum, or the first beta of AdamW and Lion, of the same update.
double momentum_at(const Config& config, std::int64_t samples_before);

}  // namespace plimsoll
