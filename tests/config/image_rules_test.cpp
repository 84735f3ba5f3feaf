// Keys of images and of batch normalisation: their defaults, and keys without effect.
#include "config/image_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

constexpr const char* kResnet = R"([model]
kind = "resnet"
layer = "basic"
depths = [1, 1]
widths = [8, 16]
classes = 10
[data]
train = "train.bin"
format = "cifar10"
[train]
effective_batch = 96
)";

constexpr const char* kVit = R"([model]
kind = "vit"
layers = 1
width = 32
heads = 2
mlp_width = 64
patch = 8
size = 32
classes = 10
[data]
train = "train.idx"
labels = "labels.idx"
format = "idx"
[train]
effective_batch = 96
)";

constexpr const char* kText = R"([model]
kind = "gpt2"
layers = 1
width = 32
heads = 2
context = 32
vocab = 256
[data]
train = "text.txt"
[train]
effective_batch = 8
)";

class ImageRules : public testing::Test {
 protected:
  // `sets`: "key=value".
  Config load(const char* text, const std::vector<std::string>& sets = {}) {
    write_raw(folder_ / "run.toml", text);
    std::vector<Change> changes;
    for (const std::string& set : sets) changes.push_back(read_change(set));
    return load_config(folder_ / "run.toml", typed_settings(changes));
  }
  // The notes on a configuration, joined.
  std::string notes(const char* text, const std::vector<std::string>& sets) {
    std::string all;
    for (const std::string& note : load(text, sets).notes) all += note + "\n";
    return all;
  }

  ScratchFolder folder_;
};

bool holds(const std::string& text, std::string_view fragment) { return text.find(fragment) != std::string::npos; }

TEST_F(ImageRules, GroupsFollowTheBatch) {
  EXPECT_EQ(stat_batch(load(kResnet)), 32);
  EXPECT_EQ(load(kResnet).norm.stat_batch, 32);
  EXPECT_EQ(stat_batch(load(kResnet, {"train.micro_batch=48"})), 48);
  EXPECT_EQ(stat_batch(load(kResnet, {"norm.stat_batch=6"})), 6);
  EXPECT_ERROR(load(kResnet, {"norm.stat_batch=7"}), "E-BATCH-NORM", "groups of 7 samples do not divide");
  EXPECT_EQ(stat_batch(load(kVit)), 0);
}

TEST_F(ImageRules, NoGroupsWithoutStatisticsOfABatch) {
  const std::string frozen = "model.freeze=[\".*normalization.*\"]";
  for (const std::string& set : {std::string("norm.statistics=running"), frozen, std::string("adapter.kind=lora")}) {
    SCOPED_TRACE(set);
    const Config config = load(kResnet, {set});
    EXPECT_EQ(stat_batch(config), 0);
    EXPECT_FALSE(config.norm.stat_batch);
    EXPECT_ERROR(load(kResnet, {set, "norm.stat_batch=4"}), "E-CONFIG-CONFLICT", "norm.stat_batch is given, and");
    EXPECT_TRUE(holds(notes(kResnet, {set, "norm.momentum=0.2"}), "norm.momentum is not used"));
    EXPECT_FALSE(holds(notes(kResnet, {set, "norm.momentum=0.1"}), "norm.momentum")) << "the default";
  }
  EXPECT_EQ(stat_batch(load(kResnet, {"model.freeze=[\".*normalization.weight\"]"})), 32) << "weights without biases";
  EXPECT_EQ(stat_batch(load(kResnet, {"model.freeze=[\"resnet.embedder.*\"]"})), 32) << "some layers";
  EXPECT_ERROR(load(kResnet, {"model.freeze=[\"absent\"]"}), "E-FREEZE", "'absent' is the name of no parameter");
}

TEST_F(ImageRules, SmallGroupsAreNoted) {
  EXPECT_FALSE(holds(notes(kResnet, {}), "batch norm"));
  EXPECT_FALSE(holds(notes(kResnet, {"train.effective_batch=74", "norm.stat_batch=2"}), "batch norm"));
  EXPECT_FALSE(holds(notes(kResnet, {"train.effective_batch=74", "train.micro_batch=2"}), "batch norm"));
  const std::string two = notes(kResnet, {"train.effective_batch=74"});
  EXPECT_TRUE(holds(two, "statistics of 2 samples, the largest divisor of train.effective_batch = 74")) << two;
  EXPECT_TRUE(holds(two, "72 with groups of 24, 75 with groups of 25")) << two;
  EXPECT_TRUE(holds(notes(kResnet, {"train.effective_batch=37"}), "statistics of 1 sample,"));
  const std::string small = notes(kResnet, {"train.effective_batch=5"});
  EXPECT_TRUE(holds(small, "batches nearby: 16 with groups of 16;")) << small;
}

TEST_F(ImageRules, KeysWithoutEffectAreRefused) {
  EXPECT_NO_THROW(load(kVit));
  for (const char* key : {"norm.stat_batch=4", "norm.statistics=running", "norm.momentum=0.2"}) {
    SCOPED_TRACE(key);
    EXPECT_ERROR(load(kVit, {key}), "E-CONFIG-CONFLICT", "has no batch normalisation");
    EXPECT_ERROR(load(kText, {key}), "E-CONFIG-CONFLICT", "has no batch normalisation");
  }
  for (const char* key : {"image.flip=true", "image.pad_crop=2", "image.mean=[0.5]", "image.std=[0.5]", "data.labels=x",
                          "data.validation_labels=x"}) {
    for (const char* format : {"auto", "bytes"}) {
      SCOPED_TRACE(key);
      EXPECT_ERROR(load(kText, {key, std::string("data.format=") + format}), "E-CONFIG-CONFLICT", "are no images");
    }
  }
  for (const char* key : {"data.template=x", "data.loss=all", "data.too_long=drop"}) {
    SCOPED_TRACE(key);
    EXPECT_ERROR(load(kText, {key}), "E-CONFIG-CONFLICT", "are cut from one stream");
  }
  EXPECT_ERROR(load(kResnet, {"data.labels=x"}), "E-CONFIG-CONFLICT", "files of format \"cifar10\" hold their labels");
  EXPECT_ERROR(load(kResnet, {"data.validation=x", "data.validation_labels=x"}), "E-CONFIG-CONFLICT", "hold their labels");
  write_raw(folder_ / "vocab.json", "{}"), write_raw(folder_ / "merges.txt", "");
  EXPECT_ERROR(load(kResnet, {"data.vocabulary=" + folder_.path().string()}), "E-CONFIG-CONFLICT", "a resnet reads no tokens");
  EXPECT_TRUE(holds(notes(kText, {"train.evaluate_samples=3"}), "train.evaluate_samples is not used"));
}

TEST_F(ImageRules, PixelsHaveNumbersForEachChannel) {
  EXPECT_EQ(load(kVit, {"image.mean=[0.1, 0.2, 0.3]", "image.std=0.5"}).image.mean.size(), 3u);
  EXPECT_ERROR(load(kVit, {"image.mean=[0.1, 0.2]"}), "E-CONFIG-VALUE", "image.mean has 2 numbers");
  EXPECT_ERROR(load(kVit, {"model.channels=1", "image.std=[0.1, 0.2, 0.3]"}), "E-CONFIG-VALUE", "image.std has 3 numbers");
}

TEST_F(ImageRules, SizesOfWholePatchesAreProposedOnce) {
  EXPECT_ERROR(load(kVit, {"model.patch=12"}), "E-CONFIG-PATCH", "a size of 24 or 36");
  try {
    load(kVit, {"model.patch=48"});
    ADD_FAILURE() << "a patch larger than the image";
  } catch (const Error& error) {
    EXPECT_EQ(error.expected, "a size of 48");
  }
}

}  // namespace
}  // namespace plimsoll
