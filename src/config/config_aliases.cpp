#include "config/config_aliases.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "settings/setting.h"

namespace plimsoll {
namespace {

void set_checkpointing(Config& c, const Setting& s) { c.plan.recompute = flag(s) ? RecomputePolicy::all : RecomputePolicy::none; }

void set_warmup_ratio(Config& c, const Setting& s) {
  const double updates = std::ceil(number(s, 0, 1) * static_cast<double>(c.train.updates));
  c.schedule.warmup = {static_cast<std::int64_t>(updates), ClockUnit::updates};
}

// Sets one of our keys to a value that stands for the setting.
void set_as(Config& c, const Setting& s, std::string_view key, std::string_view value) {
  Setting named = s;
  named.value = std::string(value);
  config_key(key).set(c, named);
}

void set_low_precision(Config& c, const Setting& s) { set_as(c, s, "precision.compute", leaf_of(s.name)); }

using Implied = std::vector<ImpliedSetting>;
using Kind = ImpliedSetting::Kind;

Error foreign_value(const Setting& s, std::string_view advice) {
  return config_error("E-CONFIG-VALUE", s.where, fmt::format("{} is \"{}\", which Plimsoll does not have", s.name, text(s)),
                      std::string(advice));
}

// A value of Transformers: our value, or "" and the advice.
struct Scheduler {
  std::string_view name, ours, advice;
  Implied implied;
};

const std::vector<Scheduler>& schedulers() {
  static const ImpliedSetting kToZero{"schedule.final_fraction", Kind::usual, 0.0};
  static const std::vector<Scheduler> kAll{
      {"linear", "linear", "", {kToZero}},
      {"cosine", "cosine", "", {kToZero}},
      {"constant", "constant", "", {{"schedule.warmup", Kind::absent, {}}}},
      {"constant_with_warmup", "constant", "", {}},
      {"cosine_with_min_lr", "cosine", "", {{"schedule.final_fraction", Kind::required, {}}}},
      {"cosine_with_restarts",
       "",
       "with its one cycle, \"cosine\"; for n cycles schedule.name = \"cosine_restarts\" and schedule.cycle = the run / n",
       {}},
      {"polynomial",
       "",
       "schedule.name = \"polynomial\" with schedule.power and schedule.final_fraction = 1e-7 / learning_rate",
       {}},
      {"warmup_stable_decay", "", "schedule.name = \"wsd\" with schedule.decay_length and schedule.decay_shape", {}},
      {"cosine_warmup_with_min_lr", "", "schedule.name = \"cosine\" with schedule.warmup and schedule.final_fraction", {}},
      {"inverse_sqrt", "", "\"cosine\", \"linear\" or schedule.name = \"wsd\"", {}},
      {"reduce_lr_on_plateau",
       "",
       "schedule.name = \"plateau\" with schedule.factor and schedule.patience, a length of training",
       {}}};
  return kAll;
}

const Scheduler* find_scheduler(const Setting& s) {
  const auto found = std::ranges::find(schedulers(), text(s), &Scheduler::name);
  return found == schedulers().end() ? nullptr : &*found;
}

void set_scheduler(Config& c, const Setting& s) {
  const Scheduler* found = find_scheduler(s);
  if (found == nullptr) return config_key("schedule.name").set(c, s);
  if (found->ours.empty()) throw foreign_value(s, found->advice);
  set_as(c, s, "schedule.name", found->ours);
}

Implied implied_by_scheduler(const Setting& s) {
  const Scheduler* found = find_scheduler(s);
  return found != nullptr ? found->implied : Implied{};
}

// Optimizers of Transformers. Our own names are taken as our own.
struct Optim {
  std::string_view name, ours, state;
};

constexpr Optim kOptims[] = {{"adamw_torch", "adamw", "fp32"},      {"adamw_torch_fused", "adamw", "fp32"},
                             {"adamw_torch_xla", "adamw", "fp32"},  {"adamw_torch_npu_fused", "adamw", "fp32"},
                             {"adamw_apex_fused", "adamw", "fp32"}, {"adamw_hf", "adamw", "fp32"},
                             {"paged_adamw", "adamw", "fp32"},      {"paged_adamw_32bit", "adamw", "fp32"},
                             {"adamw_8bit", "adamw", "8bit"},       {"adamw_bnb_8bit", "adamw", "8bit"},
                             {"adamw_torch_8bit", "adamw", "8bit"}, {"paged_adamw_8bit", "adamw", "8bit"},
                             {"lion_32bit", "lion", "fp32"},        {"paged_lion_32bit", "lion", "fp32"},
                             {"lion_8bit", "lion", "8bit"},         {"paged_lion_8bit", "lion", "8bit"}};

const Optim* find_optim(const Setting& s) {
  const auto* found = std::ranges::find(kOptims, text(s), &Optim::name);
  return found == std::end(kOptims) ? nullptr : found;
}

void set_optim(Config& c, const Setting& s) {
  if (const Optim* found = find_optim(s)) return set_as(c, s, "optimizer.name", found->ours);
  if (text(s) == "adafactor") {
    throw foreign_value(
        s,
        "there the rate is absolute; optimizer.name = \"adafactor\" is that of the paper and of PyTorch, whose rate "
        "(1e-2) is relative to the size of a parameter");
  }
  config_key("optimizer.name").set(c, s);
}

// The optimizer brings the defaults of TrainingArguments.
Implied implied_by_optim(const Setting& s) {
  const Optim* found = find_optim(s);
  const bool sgd = text(s) == "sgd";
  if (found == nullptr && !sgd) return {};
  Implied implied{{"optimizer.learning_rate", Kind::usual, 5e-5}, {"optimizer.weight_decay", Kind::usual, 0.0}};
  if (sgd) return implied;
  implied.push_back({"optimizer.betas", Kind::usual, std::vector<double>{0.9, 0.999}});
  if (found->state != "fp32") implied.push_back({"precision.optimizer_state", Kind::always, std::string(found->state)});
  return implied;
}

// A name of LoRA's settings implies an adapter.
Implied implied_by_lora(const Setting&) { return {{"adapter.kind", Kind::usual, std::string("lora")}}; }

// Axolotl's values: lora, qlora.
void set_adapter(Config& c, const Setting& s) { set_as(c, s, "adapter.kind", text(s) == "qlora" ? "lora" : text(s)); }

Implied implied_by_adapter(const Setting& s) {
  if (text(s) != "qlora") return {};
  return {{"quantize.base", Kind::usual, std::string("nf4")}};
}

void set_dora(Config& c, const Setting&) { c.adapter.kind = AdapterKind::dora; }

void set_base_format(Config& c, const Setting& s) {
  set_as(c, s, "quantize.base", leaf_of(s.name) == "load_in_4bit" ? "nf4" : "int8");
}

// A number of evaluations. Without an interval between them, the rules refuse any patience.
void set_patience(Config& c, const Setting& s) {
  constexpr std::int64_t kMostEvaluations = 1 << 20;
  const Duration& interval = c.train.evaluate_every;
  c.stop.patience = {whole(s, 1, kMostEvaluations) * std::max<std::int64_t>(1, interval.amount), interval.unit};
}

// loss, eval_loss, accuracy, eval_accuracy.
void set_metric(Config& c, const Setting& s) {
  const std::string name = text(s);
  set_as(c, s, "stop.metric", name.starts_with("eval_") ? std::string_view(name).substr(5) : std::string_view(name));
}

// A share of the samples, 0.05 for "5%".
void set_held_out(Config& c, const Setting& s) {
  Setting share = s;
  const double value = number(s, 0, 1e9);
  if (value >= 1) throw foreign_value(s, "a share below 1, or data.validation = a file with separate samples");
  share.value = value > 0 ? fmt::format("{:g}%", 100 * value) : std::string();
  share.text = std::get<std::string>(share.value);
  if (value > 0) config_key("data.validation").set(c, share);
}

// Stage 0 of DeepSpeed, where each rank has all of the state, is stage 1 here.
void set_zero_stage(Config& c, const Setting& s) { c.parallel.zero = std::max<std::int64_t>(1, whole(s, 0, 3)); }

// Strategies of FSDP, in any case.
void set_sharding(Config& c, const Setting& s) {
  std::string name = text(s);
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  constexpr std::pair<std::string_view, int> kStages[] = {{"no_shard", 1}, {"shard_grad_op", 2}, {"full_shard", 3}};
  const auto* found = std::ranges::find(kStages, name, &std::pair<std::string_view, int>::first);
  if (found == std::end(kStages)) throw foreign_value(s, "parallel.zero = 1 or 2, or \"auto\"");
  c.parallel.zero = found->second;
}

constexpr std::string_view kWarmupRemark = "update i of n has i / n of the rate; in Transformers it has (i - 1) / n";

// Names with one meaning.
struct AliasGroup {
  std::vector<std::string_view> names;
  std::string_view key;
  SetKey set = nullptr;
  bool off_says_nothing = false;
  std::vector<ImpliedSetting> (*implied)(const Setting&) = nullptr;
  std::string_view remark = {};
};

const AliasGroup kAliases[] = {
    {{"per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu"}, "train.micro_batch"},
    {{"gradient_accumulation_steps", "accumulate_grad_batches", "update_freq"}, "train.accumulation"},
    {{"train_batch_size", "total_train_batch_size", "global_batch_size", "nbs"}, "train.effective_batch"},
    {{"max_steps", "max_iters", "max_update"}, "train.updates"},
    {{"max_epochs", "num_epochs", "num_train_epochs"}, "train.epochs"},
    {{"max_grad_norm", "gradient_clipping", "gradient_clip_val", "grad_clip", "clip_norm"}, "train.gradient_clip"},
    {{"label_smoothing_factor"}, "train.label_smoothing"},
    {{"z_loss_weight"}, "train.z_loss"},
    {{"eval_steps", "eval_interval"}, "train.evaluate_every"},
    {{"save_steps", "save_every"}, "save.every"},
    {{"load_best_model_at_end"},
     "save.best_weights",
     nullptr,
     false,
     nullptr,
     "the best weights are in RUN/weights_best, which commands open; RUN/weights stays the last"},
    {{"save_total_limit"}, "save.keep_last"},
    {{"early_stopping_patience"}, "stop.patience", set_patience},
    {{"early_stopping_threshold"},
     "stop.min_delta",
     nullptr,
     false,
     nullptr,
     "a loss is compared with that of the last improvement, in Transformers with the best one"},
    {{"metric_for_best_model"}, "stop.metric", set_metric},
    {{"lr", "lr0"}, "optimizer.learning_rate"},
    {{"optim", "optimizer"}, "optimizer.name", set_optim, false, implied_by_optim},
    {{"adam_epsilon"}, "optimizer.epsilon"},
    {{"lr_scheduler_type", "lr_scheduler"}, "schedule.name", set_scheduler, false, implied_by_scheduler},
    {{"warmup_steps"}, "schedule.warmup", nullptr, false, nullptr, kWarmupRemark},
    {{"warmup_iters", "warmup_updates"}, "schedule.warmup"},
    {{"warmup_ratio"}, "schedule.warmup", set_warmup_ratio, false, nullptr, kWarmupRemark},
    {{"min_lr_rate"}, "schedule.final_fraction"},
    {{"gradient_checkpointing", "activation_checkpointing", "checkpoint_activations"}, "plan.recompute", set_checkpointing},
    {{"bf16", "fp16"}, "precision.compute", set_low_precision, true},
    {{"n_layer"}, "model.layers"},
    {{"n_embd"}, "model.width"},
    {{"n_head"}, "model.heads"},
    {{"block_size", "n_positions", "sequence_len"}, "model.context"},
    {{"vocab_size"}, "model.vocab"},
    {{"lora_r", "lora_rank", "r"}, "adapter.rank", nullptr, false, implied_by_lora},
    {{"lora_alpha"}, "adapter.alpha", nullptr, false, implied_by_lora},
    {{"lora_dropout"}, "adapter.dropout", nullptr, false, implied_by_lora},
    {{"lora_target_modules", "target_modules"}, "adapter.targets", nullptr, false, implied_by_lora},
    {{"exclude_modules"}, "adapter.exclude", nullptr, false, implied_by_lora},
    {{"lora_modules_to_save"}, "adapter.modules_to_save", nullptr, false, implied_by_lora},
    {{"use_rslora", "peft_use_rslora"}, "adapter.rs", nullptr, true, implied_by_lora},
    {{"use_dora", "peft_use_dora"}, "adapter.kind", set_dora, true},
    {{"adapter"}, "adapter.kind", set_adapter, false, implied_by_adapter},
    {{"load_in_4bit", "load_in_8bit"}, "quantize.base", set_base_format, true},
    {{"sample_packing"}, "batch.packing"},
    {{"val_set_size", "val_size"}, "data.validation", set_held_out},
    {{"zero_stage"}, "parallel.zero", set_zero_stage},
    {{"sharding_strategy", "fsdp_sharding_strategy"}, "parallel.zero", set_sharding},
    {{"random_state"}, "seed"},
    {{"train_file"}, "data.train"},
    {{"validation_file"}, "data.validation"},
};

std::vector<ConfigAlias> all_aliases() {
  std::vector<ConfigAlias> all;
  for (const AliasGroup& group : kAliases) {
    for (const std::string_view name : group.names) {
      all.push_back({name, group.key, group.set, group.off_says_nothing, group.implied, group.remark});
    }
  }
  return all;
}

// Keys or sections of other programs without a single meaning here.
struct ForeignNames {
  std::string_view advice;
  std::vector<std::string_view> names;
};

const ForeignNames kForeign[] = {
    {"other programs mean different things by it: write effective_batch (samples of an update) or micro_batch", {"batch_size"}},
    {"write effective_batch (samples of an update) or micro_batch (samples computed at a time)", {"batch"}},
    {"write schedule.warmup in updates, samples, tokens or % of the run", {"warmup_epochs"}},
    {"write schedule.final_fraction = min_lr / learning_rate", {"min_lr"}},
    {"write optimizer.betas = [beta1, beta2]", {"adam_beta1", "adam_beta2", "beta1", "beta2"}},
    {"write a section [adapter]: kind = \"lora\" or \"dora\", rank, alpha, dropout, targets, modules_to_save; or init = a PEFT "
     "folder",
     {"lora", "qlora", "peft", "peft_config", "adapter", "use_lora", "use_peft", "adapters", "peft_type", "finetuning_type"}},
    {"write adapter.targets = [\"q_proj\", \"v_proj\"], or \"all-linear\"", {"lora_target"}},
    {"write adapter.targets = \"all-linear\", which is the default", {"lora_target_linear"}},
    {"write adapter.init = the folder of the adapter", {"lora_model_dir", "adapter_name_or_path"}},
    {"write adapter.modules_to_save", {"additional_target"}},
    {"write adapter.targets as a regular expression for whole names, or adapter.exclude", {"layers_to_transform"}},
    {"language models are trained; leave it out", {"task_type"}},
    {"biases of the base stay as they are, as bias = \"none\" says; leave it out", {"bias"}},
    {"biases of the base stay as they are; leave it out", {"lora_bias"}},
    {"A begins as random numbers and B as zeros, as \"true\" says; leave it out", {"init_lora_weights"}},
    {"A begins as random numbers and B as zeros; leave it out", {"loftq_config"}},
    {"an adapter is trained here; leave it out", {"inference_mode"}},
    {"the model's family defines the layout of its matrices; leave it out", {"fan_in_fan_out"}},
    {"all parameters have one optimizer.learning_rate; leave it out", {"loraplus_lr_ratio"}},
    {"frozen linear layers in 4 bits are quantize.base = \"nf4\", in 8 bits \"int8\"",
     {"quantization_bit", "bnb_4bit_quant_type", "quantization_config"}},
    {"write precision.compute", {"bnb_4bit_compute_dtype"}},
    {"quantize.base = \"nf4\" keeps the scales of a folder of bitsandbytes; leave it out", {"bnb_4bit_use_double_quant"}},
    {"write stop.patience = a length of training, or schedule.patience of the schedule \"plateau\"", {"patience"}},
    {"write stop.patience = a length of training without a better evaluation, after which the run stops",
     {"early_stopping", "early_stop"}},
    {"the best weights are kept without it: a lower loss is better, or a higher accuracy with stop.metric = \"accuracy\"",
     {"greater_is_better", "save_best", "save_best_only"}},
    {"there are no trackers here: metrics.jsonl in the run's folder has one line of JSON for each update, run.json the whole",
     {"report_to", "wandb", "use_wandb", "wandb_project", "wandb_log", "wandb_run_name", "tensorboard", "mlflow"}},
    {"a run is named by its folder, an option of plimsoll train: run", {"run_name"}},
    {"the run's folder is an option of plimsoll train: run", {"output_dir", "out_dir", "overwrite_output_dir"}},
    {"a run is continued by an option of plimsoll train: resume", {"resume_from_checkpoint"}},
    {"every update is logged, as a line of metrics.jsonl in the run's folder; leave it out",
     {"logging_steps", "logging_strategy", "logging_first_step", "log_interval", "log_every_n_steps"}},
    {"write model.init = the folder of the weights (config.json and its safetensors)",
     {"model_name_or_path", "pretrained_model_name_or_path", "base_model", "init_from"}},
    {"write model.kind", {"model_type"}},
    {"write data.vocabulary = the folder of tokenizer.json, or of vocab.json and merges.txt", {"tokenizer_name", "tokenizer"}},
    {"write model.context; longer samples are handled as data.too_long says",
     {"max_seq_length", "max_seq_len", "max_length", "cutoff_len", "model_max_length"}},
    {"write data.train = a file, or a list of them, with data.format = \"chat\" for conversations and other JSON samples",
     {"datasets", "dataset", "dataset_name", "dataset_path", "dataset_dir", "data_path", "data_files", "train_data"}},
    {"write data.validation", {"test_datasets", "eval_dataset"}},
    {"a JSON sample has its text under the key text; data.format = \"chat\" reads it", {"dataset_text_field"}},
    {"tokens are kept in the cache folder, by the content of the data; leave it out", {"dataset_prepared_path"}},
    {"one thread reads data during the training; leave it out",
     {"dataset_num_proc", "dataset_processes", "preprocessing_num_workers", "num_workers", "dataloader_num_workers"}},
    {"write train.updates, or a smaller file in data.train", {"max_samples"}},
    {"write data.template = a file with the template; without it, the template of the model's folder is used",
     {"chat_template", "template"}},
    {"write data.loss = \"assistant\", \"last\" or \"all\"",
     {"train_on_inputs", "train_on_prompt", "roles_to_train", "assistant_only_loss", "completion_only_loss"}},
    {"validation goes by batch.packing, as the training does; leave it out", {"eval_sample_packing"}},
    {"rows have model.context tokens; batch.packing fills them", {"pad_to_sequence_len"}},
    {"rows of samples of one length: batch.packing fills them instead", {"group_by_length"}},
    {"write batch.packing = true: samples of a row do not see each other", {"neat_packing"}},
    {"the tokenizer of the model's folder defines its special tokens; leave it out", {"special_tokens"}},
    {"write train.evaluate_every and save.every = the updates between them", {"evals_per_epoch", "saves_per_epoch"}},
    {"this is supervised training of a language model; leave it out", {"stage"}},
    {"preference data are not trained on; leave it out", {"rl"}},
    {"there is no noise on embeddings here; adapter.dropout and model.dropout regularise", {"neftune_noise_alpha"}},
    {"kernels are fixed when the plan is made; leave it out",
     {"flash_attention", "attn_implementation", "sdp_attention", "xformers_attention", "torch_compile", "compile"}},
    {"write plan.recompute; without it the plan recomputes as the budget requires", {"use_gradient_checkpointing"}},
    {"nothing is uploaded from here; leave it out", {"hub_model_id", "push_to_hub", "hub_strategy"}},
    {"no code of a model's folder is run; leave it out", {"trust_remote_code"}},
    {"write train.evaluate_every = the updates between validation losses; 0: at the end only",
     {"eval_strategy", "evaluation_strategy"}},
    {"write save.every = the updates between checkpoints; 0: at the end only", {"save_strategy"}},
    {"validation goes by the micro-batch of the training; leave it out", {"per_device_eval_batch_size"}},
    {"write train.evaluate_samples", {"max_eval_samples"}},
    {"write schedule.final_fraction, schedule.cycle, schedule.power", {"lr_scheduler_kwargs"}},
    {"write the keys of [optimizer]", {"optim_args"}},
    {"write its purpose: memory.budget, memory.disk, precision.compute", {"deepspeed"}},
    {"several processes are started by plimsoll launch; write parallel.zero = the stage",
     {"fsdp", "fsdp_config", "zero_optimization"}},
    {"write batch.tokens: tokens of a micro-batch at most, or train.effective_tokens: of an update", {"max_tokens"}},
};

}  // namespace

std::span<const ConfigAlias> config_aliases() {
  static const std::vector<ConfigAlias> aliases = all_aliases();
  return aliases;
}

std::string_view foreign_name_advice(std::string_view name) {
  for (const ForeignNames& foreign : kForeign) {
    if (std::ranges::find(foreign.names, name) != foreign.names.end()) return foreign.advice;
  }
  return {};
}

std::string foreign_value_advice(std::string_view key, std::string_view value) {
  if (key == "optimizer.name") {
    for (const Optim& optim : kOptims) {
      if (optim.name != value) continue;
      const bool narrow = optim.state != "fp32";
      return fmt::format("\"{}\"{}; optim = \"{}\" brings the defaults of Transformers as well", optim.ours,
                         narrow ? " with precision.optimizer_state = \"8bit\"" : "", value);
    }
  }
  if (key == "schedule.name") {
    for (const Scheduler& scheduler : schedulers()) {
      if (scheduler.name != value) continue;
      if (!scheduler.advice.empty()) return std::string(scheduler.advice);
      return fmt::format("\"{}\" with schedule.{}", scheduler.ours, scheduler.ours == "constant" ? "warmup" : "final_fraction");
    }
  }
  return "";
}

}  // namespace plimsoll
