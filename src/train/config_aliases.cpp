#include "train/config_aliases.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "train/config_source.h"

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

// Ours begin with a warm-up where one is given.
void set_scheduler(Config& c, const Setting& s) {
  Setting named = s;
  if (text(s) == "constant_with_warmup") named.value = std::string("constant");
  config_key("schedule.name").set(c, named);
}

void set_optim(Config& c, const Setting& s) {
  Setting named = s;
  if (text(s).starts_with("adamw")) named.value = std::string("adamw");
  config_key("optimizer.name").set(c, named);
}

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
    {"optim", "optimizer.name", set_optim},
    {"adam_epsilon", "optimizer.epsilon", nullptr},
    {"lr_scheduler_type", "schedule.name", set_scheduler},
    {"warmup_steps", "schedule.warmup", nullptr},
    {"warmup_iters", "schedule.warmup", nullptr},
    {"warmup_updates", "schedule.warmup", nullptr},
    {"warmup_ratio", "schedule.warmup", set_warmup_ratio},
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

constexpr std::string_view kEpochs = "there are no epochs here: train.updates = epochs x samples / effective_batch";
const ForeignName kForeign[] = {
    {"batch_size", "other programs mean different things by it: write effective_batch (samples of an update) or micro_batch"},
    {"batch", "write effective_batch (samples of an update) or micro_batch (samples computed at a time)"},
    {"epochs", kEpochs},
    {"max_epochs", kEpochs},
    {"num_train_epochs", kEpochs},
    {"num_epochs", kEpochs},
    {"warmup_epochs", "write schedule.warmup in updates, samples, tokens or % of the run"},
    {"min_lr", "write schedule.final_fraction = min_lr / learning_rate"},
    {"adam_beta1", "write optimizer.betas = [beta1, beta2]"},
    {"adam_beta2", "write optimizer.betas = [beta1, beta2]"},
    {"beta1", "write optimizer.betas = [beta1, beta2]"},
    {"beta2", "write optimizer.betas = [beta1, beta2]"},
    {"max_tokens", "write effective_batch and model.context; every sample has the same number of tokens"},
};

}  // namespace

std::span<const ConfigAlias> config_aliases() { return kAliases; }
std::span<const ForeignName> foreign_names() { return kForeign; }

}  // namespace plimsoll
