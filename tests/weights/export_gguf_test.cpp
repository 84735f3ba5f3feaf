// A model that is exported as a GGUF file and read again has the same numbers, configuration and tokens.
#include "weights/export_gguf.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/gguf/gguf_file.h"
#include "formats/safetensors.h"
#include "formats/scratch_folder.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/weight_files.h"
#include "models/all.h"
#include "models/gguf.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVocab = 40;

Json decoder(const char* type) {
  return {{"model_type", type},        {"num_hidden_layers", 2}, {"hidden_size", 32},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2},  {"head_dim", 16},         {"intermediate_size", 48}, {"max_position_embeddings", 64},
          {"vocab_size", kVocab},      {"rms_norm_eps", 1e-5},   {"rope_theta", 10000.0},   {"tie_word_embeddings", false},
          {"sliding_window", nullptr}, {"bos_token_id", 1},      {"eos_token_id", 2}};
}

Json with(Json json, const Json& more) {
  json.update(more);
  return json;
}

class ExportGguf : public testing::Test {
 protected:
  // Numbers of the model that config.json says.
  void write_model(const Json& config) {
    write_raw(source() / "config.json", config.dump());
    const ModelConfig model = read_model(source());
    const Graph graph = model.family().build(model, {0, 1, 1}, {}).graph;
    std::vector<TensorSpec> specs;
    for (const ValueId id : graph.parameters()) {
      specs.push_back({std::string(graph.values[id].name.text()), DType::f32, graph.values[id].type.shape});
    }
    SafetensorsWriter writer(source() / "model.safetensors", specs);
    float next = 0;
    for (const TensorSpec& spec : specs) {
      std::vector<float> numbers(static_cast<std::size_t>(spec.shape.elements()));
      for (float& x : numbers) x = next++ * 0x1p-10f;
      writer.append(spec.name, std::as_bytes(std::span(numbers)));
    }
    writer.commit();
  }

  GgufExported export_to(const char* type) { return export_gguf({source(), {}, file_, gguf_storage(type)}); }

  std::filesystem::path source() {
    std::filesystem::create_directory(folder_ / "in");
    return folder_ / "in";
  }

  ScratchFolder folder_;
  std::filesystem::path file_ = folder_ / "model.gguf";
};

std::vector<float> read(const WeightFiles& files, const WeightFiles::Found& found) {
  std::vector<float> numbers(static_cast<std::size_t>(found.tensor->shape.elements()));
  std::vector<std::byte> staging(1 << 12);
  files.read_f32(found, 0, numbers, staging);
  return numbers;
}

TEST_F(ExportGguf, ComesBackAsItWas) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 32}};
  const std::vector<Json> models{
      with(decoder("llama"), {{"attention_bias", true}, {"mlp_bias", true}}),
      with(decoder("llama"), {{"rope_scaling", llama3}, {"tie_word_embeddings", true}}),
      with(decoder("llama"), {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}),
      with(decoder("mistral"), {{"sliding_window", 16}}),
      with(decoder("qwen2"),
           {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}}}}),
      decoder("qwen3"),
      {{"model_type", "gpt2"},
       {"n_layer", 2},
       {"n_embd", 32},
       {"n_head", 4},
       {"n_positions", 24},
       {"vocab_size", kVocab},
       {"bos_token_id", 3},
       {"eos_token_id", 3}}};
  for (const Json& config : models) {
    SCOPED_TRACE(config.dump());
    write_model(config);
    export_to("F32");
    const WeightFiles before = weights_of_model(source()), after = weights_of_model(file_);
    EXPECT_EQ(before.all().size(), after.all().size());
    for (const WeightFiles::Found& found : before.all()) {
      const auto again = after.find(found.tensor->name);
      ASSERT_TRUE(again) << found.tensor->name;
      EXPECT_EQ(again->tensor->shape, found.tensor->shape);
      EXPECT_EQ(read(after, *again), read(before, found)) << found.tensor->name;
    }
    EXPECT_TRUE(same_shape(read_model(file_), read_model(source()))) << read_model(file_).text() << read_model(source()).text();
  }
}

TEST_F(ExportGguf, MatricesGetTheTypeAndVectorsStay) {
  write_model(decoder("qwen2"));
  const GgufExported exported = export_to("Q8_0");
  EXPECT_EQ(exported.architecture, "qwen2");
  EXPECT_EQ(exported.in_f16, 2);  // rows of 48
  const GgufFile file = GgufFile::open(file_);
  EXPECT_EQ(exported.tensors, std::ssize(file.tensors()));
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->stored_as, "Q8_0");
  EXPECT_EQ(file.find("blk.0.ffn_down.weight")->stored_as, "F16");
  EXPECT_EQ(file.find("blk.0.attn_q.bias")->stored_as, "F32");
  EXPECT_EQ(file.find("output_norm.weight")->stored_as, "F32");
  EXPECT_EQ(file.whole("general.file_type"), 7);
}

TEST_F(ExportGguf, TokensComeBack) {
  write_model(decoder("llama"));
  Json vocab = Json::object();
  const std::array texts{"a", "b", "c", "d", "ab", "cd", "abcd"};
  for (std::size_t i = 0; i < texts.size(); ++i) vocab[texts[i]] = i;
  const Json added = {{{"id", 7}, {"content", "<s>"}, {"special", true}}, {{"id", 8}, {"content", "mine"}, {"special", false}}};
  const Json begin = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", Json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {7}}, {"tokens", {"<s>"}}}}}}};
  const Json tokenizer = {
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"post_processor", begin},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "c d", "ab cd"}}}}};
  write_raw(source() / "tokenizer.json", tokenizer.dump());
  write_raw(source() / "tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "{{ messages }}"})");
  const GgufExported exported = export_to("BF16");
  EXPECT_TRUE(exported.tokenizer && exported.chat_template);
  const GgufFile file = GgufFile::open(file_);
  EXPECT_EQ(file.text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.text("tokenizer.chat_template"), "{{ messages }}");
  EXPECT_EQ(file.flag("tokenizer.ggml.add_bos_token"), true);
  Tokenizer before = Tokenizer::load(source() / "tokenizer.json"), after = Tokenizer::load(file_);
  EXPECT_EQ(before.encode("abcdmineba"), (std::vector<Token>{7, 6, 8, 1, 0}));
  EXPECT_EQ(after.encode("abcdmineba"), before.encode("abcdmineba"));
  EXPECT_EQ(file.value("tokenizer.ggml.tokens")->count, static_cast<std::uint64_t>(kVocab));
}

TEST_F(ExportGguf, WhatHasNoPlaceIsRefusedAndNothingIsWritten) {
  write_model(with(decoder("llama"), {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}));
  EXPECT_ERROR(export_to("F32"), "E-EXPORT-MODEL", "dynamic");
  write_model(with(decoder("llama"), {{"hidden_act", "gelu"}}));
  EXPECT_ERROR(export_to("F32"), "E-EXPORT-MODEL", "SiLU");
  write_model(decoder("llama"));
  write_raw(source() / "tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})");
  EXPECT_ERROR(export_to("F32"), "E-EXPORT-TOKENIZER", "WordPiece");
  write_raw(source() / "tokenizer.json", R"({"model": {"type": 3}})");
  EXPECT_ERROR(export_to("F32"), "E-TOKENIZER", "no type");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace plimsoll
