// Weights of a folder: the choice of the file, and indexes from strangers.
#include "formats/weight_files.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "expect_error.h"
#include "formats/file.h"
#include "formats/weight_index.h"
#include "scratch_folder.h"

namespace plimsoll {
namespace {

constexpr const char *kOne = "model-00001-of-00002.safetensors", *kTwo = "model-00002-of-00002.safetensors";

void write_tensors(const std::filesystem::path& file, const std::vector<std::string>& names, std::int64_t elements = 2) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::f32, Shape{elements}});
  SafetensorsWriter writer(file, specs);
  const std::vector<float> numbers(static_cast<std::size_t>(elements), 1.5f);
  for (const std::string& name : names) writer.append(name, std::as_bytes(std::span(numbers)));
  writer.commit();
}

std::string map_of(const std::string& entries) { return R"({"metadata":{"total_size":24},"weight_map":{)" + entries + "}}"; }

std::string entry(const std::string& tensor, const std::string& file) {
  return nlohmann::json(tensor).dump() + ":" + nlohmann::json(file).dump();
}

// a and b in one file, c in the other.
class Shards : public testing::Test {
 protected:
  Shards() {
    write_tensors(folder_ / kOne, {"a", "b"});
    write_tensors(folder_ / kTwo, {"c"});
    index(map_of(good_));
  }
  void index(const std::string& text) const { write_raw(folder_ / kWeightsIndex, text); }

  ScratchFolder folder_;
  std::string good_ = entry("a", kOne) + "," + entry("b", kOne) + "," + entry("c", kTwo);
};

TEST_F(Shards, AreFoundByTheIndex) {
  const WeightFiles files = WeightFiles::open(folder_.path());
  EXPECT_TRUE(files.has_index());
  EXPECT_EQ(files.names(), (std::vector<std::string>{kOne, kTwo}));
  EXPECT_EQ(files.find("b")->file, 0u);
  EXPECT_EQ(files.find("c")->file, 1u);
  EXPECT_EQ(files.find("c")->tensor->name, "c");
  EXPECT_FALSE(files.find("d"));
  EXPECT_TRUE(has_weights(folder_.path()));
  EXPECT_EQ(weights_in(folder_.path()).n,
            static_cast<std::int64_t>(std::filesystem::file_size(folder_ / kOne) + std::filesystem::file_size(folder_ / kTwo) +
                                      std::filesystem::file_size(folder_ / kWeightsIndex)));
}

TEST_F(Shards, OneFileComesBeforeAnIndex) {
  write_tensors(folder_ / kWeightsFile, {"x"});
  index("[");
  const WeightFiles files = WeightFiles::open(folder_.path());
  EXPECT_FALSE(files.has_index());
  EXPECT_TRUE(files.find("x"));
  EXPECT_FALSE(files.find("a"));
}

TEST_F(Shards, WhatTheWriterWritesIsRead) {
  const WeightIndex before = read_weight_index(folder_ / kWeightsIndex);
  index(weight_index_text(before, 24));
  const WeightIndex after = read_weight_index(folder_ / kWeightsIndex);
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.places, before.places);
  const nlohmann::json json = nlohmann::json::parse(read_raw(folder_ / kWeightsIndex));
  EXPECT_EQ(json.at("metadata").at("total_size"), 24);
  EXPECT_EQ(json.at("weight_map").at("c"), kTwo);
}

TEST_F(Shards, WhatOthersAddIsNoFault) {
  index(R"({"weight_map":{)" + good_ +
        R"(},"metadata":{"total_size":1e3,"x":{"weight_map":[1]}},"more":[[{"weight_map":0}],null]})");
  EXPECT_EQ(WeightFiles::open(folder_.path()).files().size(), 2u);
  index(R"({"weight_map":{)" + good_ + "}}");
  EXPECT_EQ(WeightFiles::open(folder_.path()).files().size(), 2u);
}

TEST_F(Shards, HostileIndexesAreRefused) {
  struct Row {
    std::string text;
    const char* fragment;
  };
  const std::string a = entry("a", kOne), b = entry("b", kOne), c = entry("c", kTwo);
  std::string many;
  for (std::size_t i = 0; i <= kMaxShards; ++i) many += fmt::format("{}\"{}\":\"{}.safetensors\"", i == 0 ? "" : ",", i, i);
  std::string deep = R"({"metadata":)";
  for (int i = 0; i < 5000; ++i) deep += R"({"a":)";
  const Row table[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "it is a list"},
      {"null", "it is null"},
      {"7", "it is a number"},
      {"{}", "no weight_map"},
      {R"({"weight_map":{}})", "empty"},
      {R"({"weight_map":[]})", "weight_map is a list"},
      {R"({"weight_map":"a"})", "weight_map is a text"},
      {R"({"weight_map":null})", "weight_map is null"},
      {R"({"metadata":[],"weight_map":{)" + good_ + "}}", "metadata is a list"},
      {R"({"metadata":3,"weight_map":{)" + good_ + "}}", "metadata is a number"},
      {map_of(R"("a":1)"), "the file of \"a\" is a number"},
      {map_of(R"("a":null)"), "the file of \"a\" is null"},
      {map_of(R"("a":true)"), "the file of \"a\" is a truth value"},
      {map_of(R"("a":["model.safetensors"])"), "the file of \"a\" is a list"},
      {map_of(R"("a":{"b":"model.safetensors"})"), "the file of \"a\" is an object"},
      {R"({"weight_map":{)" + good_ + R"(},"weight_map":{"x":"y.safetensors"}})", "weight_map appears twice"},
      {map_of(good_ + "," + a), "tensor \"a\" appears twice"},
      {map_of(good_ + "," + entry("a", kTwo)), "tensor \"a\" appears twice"},
      {map_of(entry("a", "/etc/passwd")), "/etc/passwd"},
      {map_of(entry("a", "/tmp/x.safetensors")), "not a plain file name"},
      {map_of(entry("a", "../x.safetensors")), "not a plain file name"},
      {map_of(entry("a", "sub/x.safetensors")), "not a plain file name"},
      {map_of(entry("a", "./x.safetensors")), "not a plain file name"},
      {map_of(entry("a", "..\\x.safetensors")), "not a plain file name"},
      {map_of(entry("a", "..")), "not a plain file name"},
      {map_of(entry("a", ".")), "not a plain file name"},
      {map_of(entry("a", "")), "not a plain file name"},
      {map_of(R"("a":"x\u0000.safetensors")"), "not a plain file name"},
      {map_of(entry("a", std::string(300, 'x') + ".safetensors")), "not a plain file name"},
      {map_of(entry("a", "config.json")), "no safetensors file"},
      {map_of(good_ + "," + entry("d", "model-00003-of-00002.safetensors")),
       "model-00003-of-00002.safetensors, which is missing"},
      {map_of(a + "," + b), "it does not name"},  // the other file is not opened
      {map_of(a + "," + c), "it does not name tensor 'b', which is in model-00001"},
      {map_of(good_ + "," + entry("d", kOne)), "tensor 'd' is not in model-00001"},
      {map_of(a + "," + c + "," + entry("b", kTwo)), "tensor 'b' is not in model-00002"},
      {map_of(many), "513 files"},
      {deep, "nested too deeply"},
      {std::string(100000, '['), "it is a list"},
      {map_of(entry(std::string(5000, 'n'), kOne)), "a name of 5000 bytes"},
      {map_of(good_) + std::string(1, '\0'), "zero byte"},
      {std::string(kMaxIndexBytes + 1, ' '), "16777217 bytes"},
  };
  for (const Row& row : table) {
    index(row.text);
    if (row.fragment == std::string_view("it does not name")) {
      EXPECT_EQ(WeightFiles::open(folder_.path()).files().size(), 1u);
      continue;
    }
    EXPECT_ERROR(WeightFiles::open(folder_.path()), "E-FORMAT-INDEX", row.fragment);
  }
}

TEST_F(Shards, ATensorInTwoFilesIsRefused) {
  write_tensors(folder_ / kTwo, {"c", "b"});
  EXPECT_ERROR(WeightFiles::open(folder_.path()), "E-FORMAT-INDEX", fmt::format("tensor 'b' is in {} and in {}", kOne, kTwo));
}

TEST_F(Shards, BrokenFilesAreRefused) {
  write_raw(folder_ / kTwo, read_raw(folder_ / kTwo).substr(0, 40));
  EXPECT_ERROR(WeightFiles::open(folder_.path()), "E-FORMAT-SAFETENSORS", kTwo);
  std::filesystem::remove(folder_ / kTwo);
  std::filesystem::create_directory(folder_ / kTwo);
  EXPECT_ERROR(WeightFiles::open(folder_.path()), "E-IO-MISSING", "is a folder");
}

// A cache of a hub has files under blobs/ and links to them under snapshots/REVISION/.
TEST_F(Shards, LinksLeadToFilesOfTheFolderOrOfItsCache) {
  const std::filesystem::path snapshot = folder_ / "snapshots/r", blobs = folder_ / "blobs";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(blobs);
  for (const char* name : {kOne, kTwo, kWeightsIndex}) {
    std::filesystem::rename(folder_ / name, blobs / name);
    std::filesystem::create_symlink(std::filesystem::path("../../blobs") / name, snapshot / name);
  }
  EXPECT_EQ(WeightFiles::open(snapshot).files().size(), 2u);
  const ScratchFolder elsewhere;
  std::filesystem::rename(blobs / kTwo, elsewhere / kTwo);
  std::filesystem::remove(snapshot / kTwo);
  std::filesystem::create_symlink(elsewhere / kTwo, snapshot / kTwo);
  EXPECT_ERROR(WeightFiles::open(snapshot), "E-FORMAT-INDEX", "outside of the folder");
}

TEST_F(Shards, SurviveRandomMutationsOfTheIndex) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  const std::string good = map_of(good_);
  for (int round = 0; round < 1000; ++round) {
    std::string text = good;
    for (int edit = 0; edit < 3; ++edit) text[random() % text.size()] = "{}[]\",:0-9.e\xff/"[random() % 14];
    index(text);
    try {
      WeightFiles::open(folder_.path());
    } catch (const Error& error) {
      ASSERT_EQ(error.code, "E-FORMAT-INDEX") << error.what() << " seed " << seed;
    }
  }
}

TEST(WeightFiles, SayWhatLiesInTheirPlace) {
  const ScratchFolder folder;
  EXPECT_ERROR(WeightFiles::open(folder.path()), "E-FORMAT-WEIGHTS", "there is no model.safetensors");
  write_raw(folder / "pytorch_model.bin", "x");
  EXPECT_ERROR(WeightFiles::open(folder.path()), "E-FORMAT-WEIGHTS", "pytorch_model.bin, which is not read");
  write_tensors(folder / kOne, {"a"});
  EXPECT_ERROR(WeightFiles::open(folder.path()), "E-FORMAT-WEIGHTS", kOne);
}

TEST(WeightFiles, AHeaderNeedsNoFormat) {
  const ScratchFolder folder;
  std::string header = R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write_raw(folder / kWeightsFile, length + header + "abcd");
  EXPECT_EQ(WeightFiles::open(folder.path()).find("a")->tensor->dtype, DType::bf16);
}

std::size_t resident_pages(const File& file) {
  void* map = mmap(nullptr, static_cast<std::size_t>(file.size()), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (map == MAP_FAILED) return 0;
  std::vector<unsigned char> pages(static_cast<std::size_t>((file.size() + 4095) / 4096));
  mincore(map, static_cast<std::size_t>(file.size()), pages.data());
  munmap(map, static_cast<std::size_t>(file.size()));
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(WeightFiles, WhatWasReadLeavesThePageCache) {
  const ScratchFolder folder;
  struct statfs facts {};
  constexpr long kTmpfs = 0x01021994;
  if (statfs(folder.path().c_str(), &facts) != 0 || facts.f_type == kTmpfs) GTEST_SKIP() << "files of this folder are memory";
  constexpr std::int64_t kElements = 1 << 20;
  write_tensors(folder / kWeightsFile, {"a", "b"}, kElements);
  const WeightFiles files = WeightFiles::open(folder.path());
  std::vector<float> numbers(kElements);
  for (const char* name : {"a", "b"}) files.files()[0].read_f32(*files.files()[0].find(name), 0, numbers, {});
  const File file = File::open(folder / kWeightsFile);
  const std::size_t before = resident_pages(file);
  if (before < 2000) GTEST_SKIP() << "this file system keeps no pages: " << before;
  files.files()[0].forget(*files.find("a")->tensor);
  const std::size_t between = resident_pages(file);
  if (between == before) GTEST_SKIP() << "this file system takes no advice";
  EXPECT_LT(between, before * 3 / 5);
  EXPECT_GT(between, before * 2 / 5);
  files.forget();
  EXPECT_LT(resident_pages(file), 3u);
}

}  // namespace
}  // namespace plimsoll
