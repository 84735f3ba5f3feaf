// Comparison of saved files on tensors small enough to work out by hand.
#include "verify/tensors.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <span>
#include <vector>

#include "formats/expect_error.h"
#include "formats/file.h"
#include "formats/safetensors.h"
#include "formats/scratch_folder.h"
#include "formats/weight_files.h"
#include "models/all.h"
#include "models/family.h"

namespace plimsoll::verification {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

class TensorFiles : public testing::Test {
 protected:
  std::filesystem::path write(const char* name, const Tensors& tensors) {
    std::vector<TensorSpec> specs;
    for (const auto& [tensor, numbers] : tensors) specs.push_back({tensor, DType::f32, {std::ssize(numbers)}});
    SafetensorsWriter writer(folder / name, specs);
    for (const auto& [tensor, numbers] : tensors) writer.append(tensor, std::as_bytes(std::span(numbers)));
    writer.commit();
    return folder / name;
  }

  ScratchFolder folder;
};

TEST(LayerGroup, IsOneNameForAllLayers) {
  EXPECT_EQ(layer_group("h.3.attn.c_attn.weight"), "h.*.attn.c_attn");
  EXPECT_EQ(layer_group("h.11.attn.c_attn.bias"), "h.*.attn.c_attn");
  EXPECT_EQ(layer_group("wte.weight"), "wte");
  EXPECT_EQ(layer_group("h.3.norm2.weight"), "h.*.norm2") << "a digit within a word is no layer";
}

TEST(Sums, AreRelativeToTheReference) {
  EXPECT_DOUBLE_EQ((Sums{.difference = 4, .reference = 16}).relative(), 0.5);
  EXPECT_EQ(Sums{}.relative(), 0);
  EXPECT_EQ((Sums{.difference = 1}).relative(), std::numeric_limits<double>::infinity());
  const Sums all = total({{"a", {.difference = 1, .reference = 2}}, {"b", {.difference = 3, .reference = 4}}});
  EXPECT_EQ(all.difference, 4);
  EXPECT_EQ(all.reference, 6);
}

TEST_F(TensorFiles, AreComparedByGroup) {
  const auto a =
      write("a", {{"h.0.fc.weight.grad", {1, 2}}, {"h.1.fc.weight.grad", {3}}, {"wte.weight.grad", {5}}, {"wte.weight", {9}}});
  const auto b =
      write("b", {{"h.0.fc.weight.grad", {1, 4}}, {"h.1.fc.weight.grad", {6}}, {"wte.weight.grad", {5}}, {"wte.weight", {0}}});
  const GroupSums groups = compare_tensors(a, b, ".grad");
  ASSERT_EQ(groups.size(), 2u) << "tensors without the suffix do not count";
  EXPECT_DOUBLE_EQ(groups.at("h.*.fc").difference, 2 * 2 + 3 * 3);
  EXPECT_DOUBLE_EQ(groups.at("h.*.fc").reference, 1 + 4 * 4 + 6 * 6);
  EXPECT_EQ(groups.at("wte").difference, 0);
}

TEST_F(TensorFiles, OfOneModelHaveTheSameTensors) {
  const auto a = write("a", {{"x.weight.grad", {1}}}), b = write("b", {{"x.weight.grad", {1, 2}}}),
             c = write("c", {{"y.weight.grad", {1}}});
  EXPECT_ERROR(compare_tensors(a, b, ".grad"), "E-INTERNAL", "other tensors");
  EXPECT_ERROR(compare_tensors(a, c, ".grad"), "E-INTERNAL", "other tensors");
}

TEST_F(TensorFiles, TheFirstDifferenceIsNamed) {
  const auto a = write("a", {{"x", {1, 2}}, {"y", {3}}});
  EXPECT_EQ(first_difference(a, write("same", {{"x", {1, 2}}, {"y", {3}}})), "");
  EXPECT_EQ(first_difference(a, write("number", {{"x", {1, 2}}, {"y", {4}}})), "y");
  EXPECT_EQ(first_difference(a, write("shape", {{"x", {1}}, {"y", {3}}})), "x");
  const auto fewer = write("fewer", {{"x", {1, 2}}});
  EXPECT_EQ(first_difference(a, fewer), "y");
  EXPECT_EQ(first_difference(fewer, a), "y");
}

TEST_F(TensorFiles, DifferenceOfASignIsADifference) {
  EXPECT_EQ(first_difference(write("a", {{"x", {0.0F}}}), write("b", {{"x", {-0.0F}}})), "x") << "bytes are compared";
}

TEST_F(TensorFiles, ProgressIsNoResult) {
  const auto a = write("a", {{"plimsoll.progress", {1}}, {"x", {1}}}), b = write("b", {{"plimsoll.progress", {2}}, {"x", {1}}});
  EXPECT_EQ(first_difference(a, b), "");
}

// Tensors of one layer, with a count of windows.
class Statistics : public TensorFiles {
 protected:
  std::filesystem::path write(const char* name, std::vector<float> mean, std::vector<float> variance, std::int64_t windows = 2) {
    const auto size = std::ssize(mean);
    SafetensorsWriter writer(folder / name, {{"bn.running_mean", DType::f32, {size}},
                                             {"bn.running_var", DType::f32, {size}},
                                             {"bn.num_batches_tracked", DType::i64, {1}},
                                             {"fc.weight", DType::f32, {size}}});
    writer.append("bn.running_mean", std::as_bytes(std::span(mean)));
    writer.append("bn.running_var", std::as_bytes(std::span(variance)));
    writer.append("bn.num_batches_tracked", std::as_bytes(std::span(&windows, 1)));
    writer.append("fc.weight", std::as_bytes(std::span(mean)));
    writer.commit();
    return folder / name;
  }
};

TEST_F(Statistics, DifferByTheLargestShare) {
  const auto a = write("a", {0, 3}, {16, 0});
  EXPECT_EQ(compare_statistics(write("same", {0, 3}, {16, 0}), a).values, 0);
  EXPECT_DOUBLE_EQ(compare_statistics(write("mean", {0, 4}, {16, 0}), a).values, 0.2) << "of the root of 3 x 3 + 16";
  EXPECT_DOUBLE_EQ(compare_statistics(write("variance", {0, 3}, {16, 8}), a).values, 0.5);
  EXPECT_DOUBLE_EQ(compare_statistics(write("both", {0, 4}, {16, 8}), a).values, 0.5);
}

TEST_F(Statistics, OfOtherNumbersOfWindowsAreDifferent) {
  const auto a = write("a", {1}, {1});
  EXPECT_TRUE(compare_statistics(a, a).same_windows);
  EXPECT_FALSE(compare_statistics(write("three", {1}, {1}, 3), a).same_windows);
}

TEST_F(Statistics, AreNoneInOtherModels) {
  const auto a = TensorFiles::write("a", {{"x", {1}}}), b = TensorFiles::write("b", {{"x", {2}}});
  EXPECT_EQ(compare_statistics(a, b).values, 0);
}

// In files the outputs of a convolution come first, in memory last; whole numbers are copied.
TEST_F(Statistics, CountsAndTheConfigurationStayWhenWeightsMove) {
  ModelConfig model;
  for (const Family* family : families()) {
    if (family->kind == "resnet") model = family->defaults();
  }
  model.family().write(model, folder.path());
  const std::string config = read_text(folder / "config.json", 1 << 16, "E-IO-READ");
  write_raw(folder / "config.json", "{\"kept\": 1," + config.substr(1));
  const std::string parameter = "resnet.embedder.embedder.convolution.weight", count = "resnet.windows";
  ASSERT_EQ(model.family().stored(model, parameter).front(), parameter);
  const std::vector<float> weights{1, 2, 3, 4, 5, 6}, gradient{10, 20, 30, 40, 50, 60};
  const std::int64_t windows = 7;
  {
    SafetensorsWriter writer(folder / kWeightsFile, {{parameter, DType::f32, {2, 3, 1, 1}}, {count, DType::i64, Shape{}}});
    writer.append(parameter, std::as_bytes(std::span(weights)));
    writer.append(count, std::as_bytes(std::span(&windows, 1)));
    writer.commit();
    SafetensorsWriter slopes(folder / "slopes", {{parameter + ".momentum", DType::f32, {1, 1, 3, 2}}});
    slopes.append(parameter + ".momentum", std::as_bytes(std::span(gradient)));
    slopes.commit();
  }
  const double along = write_moved(folder.path(), folder / "slopes", ".momentum", layer_group(parameter), 1, folder / "moved");
  EXPECT_DOUBLE_EQ(along, 100 + 400 + 900 + 1600 + 2500 + 3600);
  const SafetensorsFile moved = SafetensorsFile::open(folder / "moved" / kWeightsFile);
  std::vector<float> got(weights.size());
  moved.read_into(*moved.find(parameter), std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, (std::vector<float>{11, 32, 53, 24, 45, 66}));
  std::int64_t counted = 0;
  moved.read_into(*moved.find(count), std::as_writable_bytes(std::span(&counted, 1)));
  EXPECT_EQ(counted, windows);
  EXPECT_NE(read_text(folder / "moved" / "config.json", 1 << 16, "E-IO-READ").find("\"kept\""), std::string::npos);
}

// Files hold the patches of a ViT as [outputs, channels, height, width], checkpoints as [height width channels, outputs].
TEST_F(TensorFiles, WeightsOfAConvolutionMoveAlongTheirGradient) {
  const std::string name = "vit.embeddings.patch_embeddings.projection";
  const auto put = [&](const std::filesystem::path& path, const std::string& tensor, const Shape& shape,
                       const std::vector<float>& numbers) {
    const std::vector<TensorSpec> specs{{tensor, DType::f32, shape}};
    SafetensorsWriter writer(path, specs);
    writer.append(tensor, std::as_bytes(std::span(numbers)));
    writer.commit();
  };
  std::filesystem::create_directory(folder / "from");
  kVit.write(kVit.defaults(), folder / "from");
  put(folder / "from" / "model.safetensors", name + ".weight", {2, 1, 2, 2}, std::vector<float>(8, 1));
  // The slope of output o at place k is 10 o + k.
  put(folder / "slopes", name + ".weight.grad", {4, 2}, {0, 10, 1, 11, 2, 12, 3, 13});
  EXPECT_DOUBLE_EQ(write_moved(folder / "from", folder / "slopes", ".grad", name, 2, folder / "to"),
                   2 * (0 + 1 + 4 + 9 + 100 + 121 + 144 + 169));
  const SafetensorsFile moved = SafetensorsFile::open(folder / "to" / "model.safetensors");
  std::vector<float> numbers(8);
  moved.read_into(*moved.find(name + ".weight"), std::as_writable_bytes(std::span(numbers)));
  EXPECT_EQ(numbers, (std::vector<float>{1, 3, 5, 7, 21, 23, 25, 27}));
}

}  // namespace
}  // namespace plimsoll::verification
