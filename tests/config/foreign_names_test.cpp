// Keys under the names of other programs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/config_aliases.h"
#include "config/config_keys.h"
#include "config/small_config.h"
#include "formats/expect_error.h"

namespace plimsoll {
namespace {

struct AliasCase {
  const char* set;
  const char* key;
  const char* text;
};

const AliasCase kAliasCases[] = {
    {"per_device_train_batch_size=4", "train.micro_batch", "4"},
    {"train.gradient_accumulation_steps=25", "train.accumulation", "25"},
    {"train_batch_size=64", "train.effective_batch", "64"},
    {"train.train_micro_batch_size_per_gpu=10", "train.micro_batch", "10"},
    {"gradient_clipping=0.5", "train.gradient_clip", "0.5"},
    {"train.max_grad_norm=2", "train.gradient_clip", "2.0"},
    {"max_steps=7", "train.updates", "7"},
    {"train.learning_rate=1e-4", "optimizer.learning_rate", "0.0001"},
    {"optimizer.lr=2e-5", "optimizer.learning_rate", "2e-05"},
    {"gradient_checkpointing=true", "plan.recompute", "\"all\""},
    {"plan.gradient_checkpointing=false", "plan.recompute", "\"none\""},
    {"train.warmup_steps=10", "schedule.warmup", "\"10updates\""},
    {"train.warmup_ratio=0.03", "schedule.warmup", "\"3updates\""},
    {"schedule.warmup-updates=4", "schedule.warmup", "\"4updates\""},
    {"train.optim=adamw_torch", "optimizer.name", "\"adamw\""},
    {"train.lr_scheduler_type=cosine", "schedule.name", "\"cosine\""},
    {"model.n_layer=3", "model.layers", "3"},
    {"block_size=16", "model.context", "16"},
    {"micro_batch=50", "train.micro_batch", "50"},
    {"bf16=true", "precision.compute", "\"bf16\""},
    {"fp16=true", "precision.compute", "\"fp16\""},
    {"lora_r=4", "adapter.rank", "4"},
    {"lora_alpha=8", "adapter.alpha", "8.0"},
    {"lora.r=4", "adapter.rank", "4"},
    {"adapter.lora_dropout=0.5", "adapter.dropout", "0.5"},
    {"lora_target_modules=[\"c_attn\"]", "adapter.targets", "[\"c_attn\"]"},
    {"target_modules=all-linear", "adapter.targets", "\"all-linear\""},
    {"use_dora=true", "adapter.kind", "\"dora\""},
    {"adapter=lora", "adapter.kind", "\"lora\""},
    {"sequence_len=16", "model.context", "16"},
    {"optimizer=adamw_torch", "optimizer.name", "\"adamw\""},
    {"lr_scheduler=cosine", "schedule.name", "\"cosine\""},
    {"random_state=5", "seed", "5"},
};

TEST_F(ConfigTest, NamesOfOtherProgramsAreTakenWithANote) {
  for (const AliasCase& alias : kAliasCases) {
    SCOPED_TRACE(alias.set);
    const Config config = small({alias.set});
    EXPECT_EQ(config_key(alias.key).text(config), alias.text);
    EXPECT_TRUE(has_note(config, alias.key));
  }
}

TEST_F(ConfigTest, QloraIsLoraOverNf4) {
  const Config config = small({"adapter=qlora"});
  EXPECT_EQ(config_key("adapter.kind").text(config), "\"lora\"");
  EXPECT_EQ(config_key("quantize.base").text(config), "\"nf4\"");
  EXPECT_TRUE(has_note(config, "adapter.kind"));
}

TEST_F(ConfigTest, NamesOfOtherProgramsMeanWhatTheyMeanThere) {
  for (const char* name : {"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"}) {
    const Config narrow = small({std::string("optim=") + name});
    EXPECT_EQ(narrow.precision.optimizer_state, DType::u8) << name;
    EXPECT_EQ(narrow.optimizer.kind, OptimizerKind::adamw) << name;
  }
  const Config lion = small({"optim=lion_32bit"});
  EXPECT_EQ(lion.optimizer.kind, OptimizerKind::lion);
  EXPECT_EQ(lion.precision.optimizer_state, DType::f32);
  EXPECT_EQ(lion.optimizer.weight_decay, 0);
  EXPECT_EQ(lion.optimizer.beta2, 0.999);
  EXPECT_EQ(small({"optim=adamw"}), small({"optimizer.name=adamw"}));
  // Explicit values override the defaults of another program, and a later choice overrides an earlier one.
  EXPECT_EQ(small({"optim=adamw_torch", "optimizer.weight_decay=0.2"}).optimizer.weight_decay, 0.2);
  EXPECT_EQ(load("optim = 'adamw_8bit'\n" + std::string(kSmall), {"optimizer.name=lion"}), small({"optimizer.name=lion"}));
  EXPECT_EQ(load("optim = 'adamw_8bit'\n" + std::string(kSmall), {"precision.optimizer_state=bf16"}).precision.optimizer_state,
            DType::bf16);
  EXPECT_ERROR(load("optim = 'adamw_8bit'\n" + std::string(kSmall) + "[precision]\noptimizer_state = 'fp32'\n"), "E-CONFIG-TWICE",
               "adamw_8bit");
  EXPECT_EQ(small({"lr_scheduler_type=cosine"}).schedule.final_fraction, 0);
  EXPECT_EQ(small({"schedule.name=cosine"}).schedule.final_fraction, 0.1);
  EXPECT_EQ(small({"lr_scheduler_type=cosine_with_min_lr", "min_lr_rate=0.2"}).schedule.final_fraction, 0.2);
  EXPECT_ERROR(small({"lr_scheduler_type=cosine_with_min_lr"}), "E-CONFIG-MISSING", "final_fraction");
  EXPECT_ERROR(small({"lr_scheduler_type=constant", "warmup_steps=5"}), "E-CONFIG-CONFLICT", "constant_with_warmup");
  for (const char* name : {"optim=adafactor", "optim=adamw_wrong", "lr_scheduler_type=cosine_with_restarts",
                           "lr_scheduler_type=polynomial", "lr_scheduler_type=inverse_sqrt", "optimizer.name=adamw_torch"}) {
    EXPECT_ERROR(small({name}), "E-CONFIG-VALUE", "\"");
  }
}

TEST_F(ConfigTest, EarlyStoppingHasTheNamesOfTransformers) {
  const std::vector<std::string> all{"data.validation=v.txt",       "eval_steps=10",
                                     "early_stopping_patience=3",   "early_stopping_threshold=0.5",
                                     "load_best_model_at_end=true", "metric_for_best_model=eval_loss"};
  const Config config = small(all);
  EXPECT_EQ(config.stop, (StopSettings{{30, ClockUnit::updates}, 0.5, StopMetric::loss}));
  EXPECT_ERROR(small({"data.validation=v.txt", "early_stopping_patience=3"}), "E-CONFIG-MISSING", "train.evaluate_every");
}

TEST_F(ConfigTest, AgreeingNamesAreAccepted) {
  const Config config = load(std::string(kSmall) + "micro_batch = 4\nmicro_batch_size = 4\n");
  EXPECT_EQ(config.train.micro_batch, 4);
  EXPECT_EQ(config.train.accumulation, 25);
}

TEST_F(ConfigTest, TheStageOfZeroHasOtherNames) {
  EXPECT_EQ(small().parallel.zero, std::nullopt);
  for (const char* set :
       {"parallel.zero=1", "zero_stage=0", "zero_stage=1", "sharding_strategy=NO_SHARD", "fsdp_sharding_strategy=no_shard"}) {
    EXPECT_EQ(small({set}).parallel.zero, 1) << set;
  }
  EXPECT_EQ(small({"parallel.zero=auto"}).parallel.zero, std::nullopt);
  const Config config = small({"parallel.zero=1", "parallel.fail_after=5s"});
  EXPECT_EQ(load(resolved_toml(config)), config) << resolved_toml(config);
  for (const char* set : {"parallel.zero=2", "zero_stage=2", "sharding_strategy=SHARD_GRAD_OP"}) {
    EXPECT_EQ(small({set}).parallel.zero, 2) << set;
  }
  for (const char* set : {"parallel.zero=3", "zero_stage=3", "fsdp_sharding_strategy=FULL_SHARD"}) {
    EXPECT_EQ(small({set}).parallel.zero, 3) << set;
  }
  EXPECT_ERROR(small({"sharding_strategy=HYBRID_SHARD"}), "E-CONFIG-VALUE", "parallel.zero = 1, 2 or 3");
  EXPECT_ERROR(small({"parallel.zero=4"}), "E-CONFIG-RANGE", "4");
}

TEST(ConfigKeys, AliasesNameKeysAndHideNone) {
  for (const ConfigAlias& alias : config_aliases()) {
    EXPECT_NO_THROW(config_key(alias.key)) << alias.name;
    for (const ConfigKey& key : config_keys()) EXPECT_NE(leaf_of(key.name), alias.name);
  }
}

}  // namespace
}  // namespace plimsoll
