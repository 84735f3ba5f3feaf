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

// A value of Transformers: ours, or "" and what to write instead.
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

// With the optimizer come the defaults of TrainingArguments.
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
    {"train_file", "data.train", nullptr},
    {"validation_file", "data.validation", nullptr},
};

constexpr std::string_view kAdapters =
    "write a section [adapter]: kind = \"lora\" or \"dora\", rank, alpha, dropout, targets, modules_to_save; or init = a PEFT "
    "folder";
constexpr std::string_view k4Bits = "frozen linear layers in 4 bits are quantize.base = \"nf4\"",
                           k8Bits = "frozen linear layers in 8 bits are quantize.base = \"int8\"";
constexpr std::string_view kEarlyStop =
    "there is no early stopping here: train.evaluate_every prints validation losses; Ctrl-C stops with a checkpoint, --resume "
    "goes on";
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
    {"lora_r", kAdapters},
    {"lora_rank", kAdapters},
    {"lora_alpha", kAdapters},
    {"lora_dropout", kAdapters},
    {"lora_target_modules", kAdapters},
    {"load_in_4bit", k4Bits},
    {"load_in_8bit", k8Bits},
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
    {"run_name", "the run's folder is its name: --run"},
    {"output_dir", "the run's folder is an option: plimsoll train CONFIG --run DIR"},
    {"out_dir", "the run's folder is an option: plimsoll train CONFIG --run DIR"},
    {"resume_from_checkpoint", "going on is an option: plimsoll train CONFIG --run DIR --resume"},
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
    {"max_seq_length", "write model.context; texts are cut into samples of that length"},
    {"max_length", "write model.context; texts are cut into samples of that length"},
    {"eval_strategy", "write train.evaluate_every = the updates between validation losses; 0: at the end only"},
    {"evaluation_strategy", "write train.evaluate_every = the updates between validation losses; 0: at the end only"},
    {"save_strategy", "write train.save_every = the updates between checkpoints; 0: at the end only"},
    {"per_device_eval_batch_size", "validation goes by the micro-batch of the training; leave it out"},
    {"max_eval_samples", "write train.evaluate_samples"},
    {"lr_scheduler_kwargs", "write schedule.final_fraction, schedule.cycle, schedule.power"},
    {"optim_args", "write the keys of [optimizer]"},
    {"torch_compile", "kernels are fixed when the plan is made; leave it out"},
    {"compile", "kernels are fixed when the plan is made; leave it out"},
    {"deepspeed", "write what it is for: memory.budget, memory.disk, precision.compute"},
    {"fsdp", "there is one device here; memory.disk and memory.host_memory are what a model may spill to"},
    {"zero_optimization", "there is one device here; memory.disk and memory.host_memory are what a model may spill to"},
    {"num_workers", "data are read beside the training by one thread; leave it out"},
    {"dataloader_num_workers", "data are read beside the training by one thread; leave it out"},
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
