#include "config/config_aliases.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>

#include "settings/setting.h"

namespace plimsoll {
namespace {

void set_checkpointing(Config& c, const Setting& s) { c.plan.recompute = flag(s) ? RecomputePolicy::all : RecomputePolicy::none; }

void set_warmup_ratio(Config& c, const Setting& s) {
  const double updates = std::ceil(number(s, 0, 1) * static_cast<double>(c.train.updates));
  c.schedule.warmup = {static_cast<std::int64_t>(updates), ClockUnit::updates};
}

void set_low_precision(Config& c, const Setting& s) {
  Setting named = s;
  named.value = std::string(leaf_of(s.name));
  config_key("precision.compute").set(c, named);
}

using Implied = std::vector<ImpliedSetting>;
using Kind = ImpliedSetting::Kind;

Error foreign_value(const Setting& s, std::string_view advice) {
  return config_error("E-CONFIG-VALUE", s.where, fmt::format("{} is \"{}\", which Plimsoll has not", s.name, text(s)),
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
       "a schedule that is known before the run: \"cosine\", \"linear\" or schedule.name = \"wsd\"",
       {}}};
  return kAll;
}

const Scheduler* find_scheduler(const Setting& s) {
  const std::string name = text(s);
  const auto found =
      std::find_if(schedulers().begin(), schedulers().end(), [&](const Scheduler& each) { return each.name == name; });
  return found == schedulers().end() ? nullptr : &*found;
}

void set_scheduler(Config& c, const Setting& s) {
  Setting named = s;
  if (const Scheduler* found = find_scheduler(s)) {
    if (found->ours.empty()) throw foreign_value(s, found->advice);
    named.value = std::string(found->ours);
  }
  config_key("schedule.name").set(c, named);
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
  const std::string name = text(s);
  const auto* found = std::find_if(std::begin(kOptims), std::end(kOptims), [&](const Optim& each) { return each.name == name; });
  return found == std::end(kOptims) ? nullptr : found;
}

void set_optim(Config& c, const Setting& s) {
  Setting named = s;
  if (const Optim* found = find_optim(s)) {
    named.value = std::string(found->ours);
  } else if (text(s) == "adafactor") {
    throw foreign_value(
        s,
        "there the rate is absolute; optimizer.name = \"adafactor\" is that of the paper and of PyTorch, whose rate "
        "(1e-2) is relative to the size of a parameter");
  }
  config_key("optimizer.name").set(c, named);
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
void set_adapter(Config& c, const Setting& s) {
  Setting named = s;
  if (text(s) == "qlora") named.value = std::string("lora");
  config_key("adapter.kind").set(c, named);
}

Implied implied_by_adapter(const Setting& s) {
  if (text(s) != "qlora") return {};
  return {{"quantize.base", Kind::usual, std::string("nf4")}};
}

void set_dora(Config& c, const Setting&) { c.adapter.kind = AdapterKind::dora; }

void set_base_format(Config& c, const Setting& s) {
  Setting named = s;
  named.value = std::string(leaf_of(s.name) == "load_in_4bit" ? "nf4" : "int8");
  config_key("quantize.base").set(c, named);
}

// A share of the samples, 0.05 for "5%".
void set_held_out(Config& c, const Setting& s) {
  Setting share = s;
  const double value = number(s, 0, 1e9);
  if (value >= 1) throw foreign_value(s, "a share below 1, or data.validation = a file with samples of its own");
  share.value = value > 0 ? fmt::format("{:g}%", 100 * value) : std::string();
  share.text = std::get<std::string>(share.value);
  if (value > 0) config_key("data.validation").set(c, share);
}

constexpr std::string_view kWarmupRemark = "update i of n has i / n of the rate; in Transformers it has (i - 1) / n";

const ConfigAlias kAliases[] = {
    {"per_device_train_batch_size", "train.micro_batch", nullptr},
    {"micro_batch_size", "train.micro_batch", nullptr},
    {"train_micro_batch_size_per_gpu", "train.micro_batch", nullptr},
    {"gradient_accumulation_steps", "train.accumulation", nullptr},
    {"accumulate_grad_batches", "train.accumulation", nullptr},
    {"update_freq", "train.accumulation", nullptr},
    {"train_batch_size", "train.effective_batch", nullptr},
    {"total_train_batch_size", "train.effective_batch", nullptr},
    {"global_batch_size", "train.effective_batch", nullptr},
    {"nbs", "train.effective_batch", nullptr},
    {"max_steps", "train.updates", nullptr},
    {"max_iters", "train.updates", nullptr},
    {"max_update", "train.updates", nullptr},
    {"max_epochs", "train.epochs", nullptr},
    {"num_epochs", "train.epochs", nullptr},
    {"num_train_epochs", "train.epochs", nullptr},
    {"max_grad_norm", "train.gradient_clip", nullptr},
    {"gradient_clipping", "train.gradient_clip", nullptr},
    {"gradient_clip_val", "train.gradient_clip", nullptr},
    {"grad_clip", "train.gradient_clip", nullptr},
    {"clip_norm", "train.gradient_clip", nullptr},
    {"label_smoothing_factor", "train.label_smoothing", nullptr},
    {"z_loss_weight", "train.z_loss", nullptr},
    {"eval_steps", "train.evaluate_every", nullptr},
    {"eval_interval", "train.evaluate_every", nullptr},
    {"save_steps", "train.save_every", nullptr},
    {"lr", "optimizer.learning_rate", nullptr},
    {"lr0", "optimizer.learning_rate", nullptr},
    {"optim", "optimizer.name", set_optim, false, implied_by_optim},
    {"adam_epsilon", "optimizer.epsilon", nullptr},
    {"lr_scheduler_type", "schedule.name", set_scheduler, false, implied_by_scheduler},
    {"warmup_steps", "schedule.warmup", nullptr, false, nullptr, kWarmupRemark},
    {"warmup_iters", "schedule.warmup", nullptr},
    {"warmup_updates", "schedule.warmup", nullptr},
    {"warmup_ratio", "schedule.warmup", set_warmup_ratio, false, nullptr, kWarmupRemark},
    {"min_lr_rate", "schedule.final_fraction", nullptr},
    {"gradient_checkpointing", "plan.recompute", set_checkpointing},
    {"activation_checkpointing", "plan.recompute", set_checkpointing},
    {"checkpoint_activations", "plan.recompute", set_checkpointing},
    {"bf16", "precision.compute", set_low_precision, true},
    {"fp16", "precision.compute", set_low_precision, true},
    {"n_layer", "model.layers", nullptr},
    {"n_embd", "model.width", nullptr},
    {"n_head", "model.heads", nullptr},
    {"block_size", "model.context", nullptr},
    {"n_positions", "model.context", nullptr},
    {"vocab_size", "model.vocab", nullptr},
    {"sequence_len", "model.context", nullptr},
    {"lora_r", "adapter.rank", nullptr, false, implied_by_lora},
    {"lora_rank", "adapter.rank", nullptr, false, implied_by_lora},
    {"r", "adapter.rank", nullptr, false, implied_by_lora},
    {"lora_alpha", "adapter.alpha", nullptr, false, implied_by_lora},
    {"lora_dropout", "adapter.dropout", nullptr, false, implied_by_lora},
    {"lora_target_modules", "adapter.targets", nullptr, false, implied_by_lora},
    {"target_modules", "adapter.targets", nullptr, false, implied_by_lora},
    {"exclude_modules", "adapter.exclude", nullptr, false, implied_by_lora},
    {"lora_modules_to_save", "adapter.modules_to_save", nullptr, false, implied_by_lora},
    {"use_rslora", "adapter.rs", nullptr, true, implied_by_lora},
    {"peft_use_rslora", "adapter.rs", nullptr, true, implied_by_lora},
    {"use_dora", "adapter.kind", set_dora, true},
    {"peft_use_dora", "adapter.kind", set_dora, true},
    {"adapter", "adapter.kind", set_adapter, false, implied_by_adapter},
    {"load_in_4bit", "quantize.base", set_base_format, true},
    {"load_in_8bit", "quantize.base", set_base_format, true},
    {"optimizer", "optimizer.name", set_optim, false, implied_by_optim},
    {"lr_scheduler", "schedule.name", set_scheduler, false, implied_by_scheduler},
    {"sample_packing", "batch.packing", nullptr},
    {"val_set_size", "data.validation", set_held_out},
    {"val_size", "data.validation", set_held_out},
    {"random_state", "seed", nullptr},
    {"train_file", "data.train", nullptr},
    {"validation_file", "data.validation", nullptr},
};

constexpr std::string_view kAdapters =
    "write a section [adapter]: kind = \"lora\" or \"dora\", rank, alpha, dropout, targets, modules_to_save; or init = a PEFT "
    "folder";
constexpr std::string_view kBits = "frozen linear layers in 4 bits are quantize.base = \"nf4\", in 8 bits \"int8\"";
constexpr std::string_view kData =
    "write data.train = a file, or a list of them, with data.format = \"chat\" for conversations and other JSON samples";
constexpr std::string_view kContext = "write model.context; longer samples are handled as data.too_long says";
constexpr std::string_view kEverything = "write train.evaluate_every and train.save_every = the updates between them";
constexpr std::string_view kRunFolder = "the run's folder is an option of plimsoll train: run";
constexpr std::string_view kKernels = "kernels are fixed when the plan is made; leave it out";
constexpr std::string_view kUpload = "nothing is uploaded from here; leave it out";
constexpr std::string_view kTrained = "write data.loss = \"assistant\", \"last\" or \"all\"";
constexpr std::string_view kReader = "one thread reads data during the training; leave it out";
constexpr std::string_view kEarlyStop =
    "there is no early stopping here: train.evaluate_every prints validation losses; Ctrl-C stops with a checkpoint, from "
    "which the run can be resumed";
constexpr std::string_view kBestCheckpoint =
    "the last checkpoint is kept, not the best: train.save_every writes it, train.evaluate_every prints validation losses";
constexpr std::string_view kTrackers =
    "there are no trackers here: metrics.jsonl in the run's folder has one line of JSON for each update, run.json the whole";
constexpr std::string_view kLogging = "every update is logged, as a line of metrics.jsonl in the run's folder; leave it out";
constexpr std::string_view kWeights = "write model.init = the folder of the weights (config.json and its safetensors)";
const ForeignName kForeign[] = {
    {"batch_size", "other programs mean different things by it: write effective_batch (samples of an update) or micro_batch"},
    {"batch", "write effective_batch (samples of an update) or micro_batch (samples computed at a time)"},
    {"warmup_epochs", "write schedule.warmup in updates, samples, tokens or % of the run"},
    {"min_lr", "write schedule.final_fraction = min_lr / learning_rate"},
    {"adam_beta1", "write optimizer.betas = [beta1, beta2]"},
    {"adam_beta2", "write optimizer.betas = [beta1, beta2]"},
    {"beta1", "write optimizer.betas = [beta1, beta2]"},
    {"beta2", "write optimizer.betas = [beta1, beta2]"},
    {"lora", kAdapters},
    {"qlora", kAdapters},
    {"peft", kAdapters},
    {"peft_config", kAdapters},
    {"adapter", kAdapters},
    {"use_lora", kAdapters},
    {"use_peft", kAdapters},
    {"adapters", kAdapters},
    {"peft_type", kAdapters},
    {"finetuning_type", kAdapters},
    {"lora_target", "write adapter.targets = [\"q_proj\", \"v_proj\"], or \"all-linear\""},
    {"lora_target_linear", "write adapter.targets = \"all-linear\", which holds where nothing is said"},
    {"lora_model_dir", "write adapter.init = the folder of the adapter"},
    {"adapter_name_or_path", "write adapter.init = the folder of the adapter"},
    {"additional_target", "write adapter.modules_to_save"},
    {"layers_to_transform", "write adapter.targets as a regular expression for whole names, or adapter.exclude"},
    {"task_type", "language models are trained; leave it out"},
    {"bias", "biases of the base stay as they are, as bias = \"none\" says; leave it out"},
    {"lora_bias", "biases of the base stay as they are; leave it out"},
    {"init_lora_weights", "A begins as random numbers and B as zeros, as \"true\" says; leave it out"},
    {"loftq_config", "A begins as random numbers and B as zeros; leave it out"},
    {"inference_mode", "an adapter is trained here; leave it out"},
    {"fan_in_fan_out", "the model's family says how its matrices lie; leave it out"},
    {"loraplus_lr_ratio", "all parameters have one optimizer.learning_rate; leave it out"},
    {"quantization_bit", kBits},
    {"bnb_4bit_quant_type", kBits},
    {"bnb_4bit_compute_dtype", "write precision.compute"},
    {"bnb_4bit_use_double_quant", "quantize.base = \"nf4\" keeps the scales of a folder of bitsandbytes; leave it out"},
    {"quantization_config", kBits},
    {"early_stopping", kEarlyStop},
    {"early_stopping_patience", kEarlyStop},
    {"early_stopping_threshold", kEarlyStop},
    {"early_stop", kEarlyStop},
    {"patience", kEarlyStop},
    {"load_best_model_at_end", kBestCheckpoint},
    {"metric_for_best_model", kBestCheckpoint},
    {"greater_is_better", kBestCheckpoint},
    {"save_best", kBestCheckpoint},
    {"keep_best", kBestCheckpoint},
    {"save_best_only", kBestCheckpoint},
    {"save_total_limit", kBestCheckpoint},
    {"report_to", kTrackers},
    {"wandb", kTrackers},
    {"use_wandb", kTrackers},
    {"wandb_project", kTrackers},
    {"wandb_log", kTrackers},
    {"wandb_run_name", kTrackers},
    {"tensorboard", kTrackers},
    {"mlflow", kTrackers},
    {"run_name", "the run's folder, an option of plimsoll train, is its name: run"},
    {"output_dir", kRunFolder},
    {"out_dir", kRunFolder},
    {"overwrite_output_dir", kRunFolder},
    {"resume_from_checkpoint", "going on is an option of plimsoll train: resume"},
    {"logging_steps", kLogging},
    {"logging_strategy", kLogging},
    {"logging_first_step", kLogging},
    {"log_interval", kLogging},
    {"log_every_n_steps", kLogging},
    {"model_name_or_path", kWeights},
    {"pretrained_model_name_or_path", kWeights},
    {"base_model", kWeights},
    {"init_from", kWeights},
    {"model_type", "write model.kind"},
    {"tokenizer_name", "write data.vocabulary = the folder of tokenizer.json, or of vocab.json and merges.txt"},
    {"tokenizer", "write data.vocabulary = the folder of tokenizer.json, or of vocab.json and merges.txt"},
    {"max_seq_length", kContext},
    {"max_seq_len", kContext},
    {"max_length", kContext},
    {"cutoff_len", kContext},
    {"model_max_length", kContext},
    {"datasets", kData},
    {"dataset", kData},
    {"dataset_name", kData},
    {"dataset_path", kData},
    {"dataset_dir", kData},
    {"data_path", kData},
    {"data_files", kData},
    {"train_data", kData},
    {"test_datasets", "write data.validation"},
    {"eval_dataset", "write data.validation"},
    {"dataset_text_field", "a JSON sample has its text under the key text; data.format = \"chat\" reads it"},
    {"dataset_prepared_path", "tokens are kept in the cache folder, by the content of the data; leave it out"},
    {"dataset_num_proc", kReader},
    {"dataset_processes", kReader},
    {"preprocessing_num_workers", kReader},
    {"max_samples", "write train.updates, or a smaller file in data.train"},
    {"chat_template", "write data.template = a file with the template; without it that of the model's folder counts"},
    {"template", "write data.template = a file with the template; without it that of the model's folder counts"},
    {"train_on_inputs", kTrained},
    {"train_on_prompt", kTrained},
    {"roles_to_train", kTrained},
    {"assistant_only_loss", kTrained},
    {"completion_only_loss", kTrained},
    {"eval_sample_packing", "validation goes by batch.packing, as the training does; leave it out"},
    {"pad_to_sequence_len", "rows have model.context tokens; batch.packing fills them"},
    {"group_by_length", "rows of samples of one length: batch.packing fills them instead"},
    {"neat_packing", "write batch.packing = true: samples of a row do not see each other"},
    {"special_tokens", "the tokenizer of the model's folder says its special tokens; leave it out"},
    {"evals_per_epoch", kEverything},
    {"saves_per_epoch", kEverything},
    {"stage", "this is supervised training of a language model; leave it out"},
    {"rl", "preference data are not trained on; leave it out"},
    {"neftune_noise_alpha", "there is no noise on embeddings here; adapter.dropout and model.dropout regularise"},
    {"flash_attention", kKernels},
    {"attn_implementation", kKernels},
    {"sdp_attention", kKernels},
    {"xformers_attention", kKernels},
    {"use_gradient_checkpointing", "write plan.recompute; without it the plan recomputes as the budget requires"},
    {"hub_model_id", kUpload},
    {"push_to_hub", kUpload},
    {"hub_strategy", kUpload},
    {"trust_remote_code", "no code of a model's folder is run; leave it out"},
    {"eval_strategy", "write train.evaluate_every = the updates between validation losses; 0: at the end only"},
    {"evaluation_strategy", "write train.evaluate_every = the updates between validation losses; 0: at the end only"},
    {"save_strategy", "write train.save_every = the updates between checkpoints; 0: at the end only"},
    {"per_device_eval_batch_size", "validation goes by the micro-batch of the training; leave it out"},
    {"max_eval_samples", "write train.evaluate_samples"},
    {"lr_scheduler_kwargs", "write schedule.final_fraction, schedule.cycle, schedule.power"},
    {"optim_args", "write the keys of [optimizer]"},
    {"torch_compile", kKernels},
    {"compile", kKernels},
    {"deepspeed", "write its purpose: memory.budget, memory.disk, precision.compute"},
    {"fsdp", "there is one device here; memory.disk and memory.host_memory are what a model may spill to"},
    {"zero_optimization", "there is one device here; memory.disk and memory.host_memory are what a model may spill to"},
    {"num_workers", kReader},
    {"dataloader_num_workers", kReader},
    {"max_tokens", "write batch.tokens: tokens of a micro-batch at most, or train.effective_tokens: of an update"},
};

}  // namespace

std::span<const ConfigAlias> config_aliases() { return kAliases; }
std::span<const ForeignName> foreign_names() { return kForeign; }

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
