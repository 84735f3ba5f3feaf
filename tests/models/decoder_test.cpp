// Configurations of the decoders as transformers 4 and 5 write them, and refused ones.
#include "models/decoder/decoder.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "models/all.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using ops::RotaryScaling;

Json small(const char* type) {
  return {{"model_type", type},       {"num_hidden_layers", 3}, {"hidden_size", 64},
          {"num_attention_heads", 4}, {"vocab_size", 509},      {"intermediate_size", 168},
          {"num_key_value_heads", 2}, {"head_dim", nullptr},    {"max_position_embeddings", 256}};
}

Json with(Json json, const Json& more) {
  json.update(more);
  return json;
}

DecoderConfig read(const std::string& text) {
  const ScratchFolder folder;
  write_raw(folder / "config.json", text);
  return read_model(folder.path()).as<DecoderConfig>();
}
DecoderConfig read(const Json& json) { return read(json.dump()); }

TEST(DecoderConfig, DefaultsAreThoseOfTheClass) {
  const DecoderConfig llama = read(Json{{"model_type", "llama"}});
  EXPECT_EQ(llama.layers, 32);
  EXPECT_EQ(llama.width, 4096);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.head_size, 128);
  EXPECT_EQ(llama.mlp_width, 11008);
  EXPECT_EQ(llama.context, 2048);
  EXPECT_EQ(llama.vocab, 32000);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.rope.theta, 1e4);
  EXPECT_EQ(llama.padding, -1);
  EXPECT_FALSE(llama.tied || llama.qkv_bias || llama.output_bias || llama.mlp_bias || llama.head_norms);
  const DecoderConfig mistral = read(Json{{"model_type", "mistral"}});
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.window, 4096);
  EXPECT_EQ(mistral.context, 131072);
  const DecoderConfig qwen2 = read(Json{{"model_type", "qwen2"}});
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.output_bias);
  EXPECT_EQ(qwen2.vocab, 151936);
  EXPECT_EQ(qwen2.window, 0);
  const DecoderConfig qwen3 = read(Json{{"model_type", "qwen3"}});
  EXPECT_EQ(qwen3.head_size, 128);
  EXPECT_TRUE(qwen3.head_norms && !qwen3.qkv_bias);
}

TEST(DecoderConfig, NullIsNotAbsent) {
  EXPECT_EQ(read(with(small("mistral"), {{"num_key_value_heads", nullptr}})).kv_heads, 4);
  EXPECT_EQ(read(with(small("mistral"), {{"sliding_window", nullptr}})).window, 0);
  EXPECT_EQ(read(with(small("qwen3"), {{"head_dim", nullptr}})).head_size, 16);
}

TEST(DecoderConfig, BiasesAndTies) {
  const DecoderConfig all = read(
      with(small("llama"), {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}, {"pad_token_id", 3}}));
  EXPECT_TRUE(all.qkv_bias && all.output_bias && all.mlp_bias && all.tied);
  EXPECT_EQ(all.padding, 3);
  EXPECT_EQ(read(with(small("llama"), {{"pad_token_id", -1}})).padding, 508);
}

TEST(DecoderConfig, RotaryKeysOfBothVersions) {
  const Json scaling{{"type", "linear"}, {"factor", 3.0}};
  const DecoderConfig four = read(with(small("llama"), {{"rope_theta", 5e5}, {"rope_scaling", scaling}}));
  EXPECT_EQ(four.rope.theta, 5e5);
  EXPECT_EQ(four.rope.scaling, RotaryScaling::linear);
  EXPECT_EQ(four.rope.factor, 3);
  // The dictionary comes before the file's own key, and rope_scaling before rope_parameters.
  const Json five{{"rope_type", "default"}, {"rope_theta", 1e6}};
  const DecoderConfig newer = read(with(small("llama"), {{"rope_theta", 5e5}, {"rope_parameters", five}}));
  EXPECT_EQ(newer.rope.theta, 1e6);
  EXPECT_EQ(read(with(small("llama"), {{"rope_parameters", five}, {"rope_scaling", scaling}})).rope.scaling,
            RotaryScaling::linear);
  EXPECT_EQ(read(with(small("llama"), {{"rope_parameters", scaling}, {"rope_scaling", Json::object()}})).rope.factor, 3);
  const Json llama3{{"rope_type", "llama3"},
                    {"factor", 8.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_max_position_embeddings", 64}};
  const DecoderConfig three = read(with(small("llama"), {{"rope_parameters", llama3}}));
  EXPECT_EQ(three.rope.original, 64);
  EXPECT_EQ(three.rope.high, 4);
  EXPECT_EQ(read(with(small("llama"), {{"rope_parameters", llama3}, {"original_max_position_embeddings", 32}})).rope.original,
            32);
}

TEST(DecoderConfig, WindowsOfQwen) {
  EXPECT_EQ(read(with(small("qwen2"), {{"sliding_window", 20}})).window, 0);  // not in use
  const DecoderConfig late =
      read(with(small("qwen2"), {{"use_sliding_window", true}, {"sliding_window", 20}, {"max_window_layers", 2}}));
  EXPECT_EQ(late.windowed, "ffs");
  EXPECT_EQ(late.window_of(1), 0);
  EXPECT_EQ(late.window_of(2), 20);
  const Json types{"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(read(with(small("qwen3"), {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", types}})).windowed,
            "sfs");
  EXPECT_EQ(read(with(small("mistral"), {{"sliding_window", 8}})).window_of(2), 8);
  const Json on{{"use_sliding_window", true}};
  EXPECT_EQ(read(with(with(small("qwen2"), on), {{"sliding_window", nullptr}})).window, 0);
  EXPECT_EQ(read(with(with(small("qwen2"), on), {{"max_window_layers", 0}})).window_of(0), 4096);
  EXPECT_EQ(read(with(small("qwen2"), {{"max_window_layers", 0}})).window, 0);
}

TEST(DecoderConfig, RefusesWhatItCannotCompute) {
  struct Row {
    const char* type;
    Json more;
    const char* fragment;
  };
  const Json yarn{{"rope_type", "yarn"}};
  const Row table[] = {
      {"llama", {{"num_hidden_layers", 0}}, "num_hidden_layers is 0"},
      {"llama", {{"hidden_size", "64"}}, "hidden_size is \"64\""},
      {"llama", {{"hidden_size", 66}}, "hidden_size is 66 and num_attention_heads is 4"},
      {"llama", {{"num_key_value_heads", 3}}, "num_attention_heads is 4 and num_key_value_heads is 3"},
      {"llama", {{"head_dim", 15}}, "the size of a head is 15"},
      {"llama", {{"vocab_size", 1LL << 40}}, "vocab_size"},
      {"llama", {{"hidden_act", "relu"}}, "hidden_act is \"relu\""},
      {"llama", {{"rms_norm_eps", 0}}, "rms_norm_eps is 0"},
      {"llama", {{"attention_bias", 1}}, "attention_bias is 1"},
      {"llama", {{"tie_word_embeddings", "no"}}, "tie_word_embeddings is \"no\""},
      {"llama", {{"attention_dropout", 1.0}}, "attention_dropout is 1.0"},
      {"llama", {{"pad_token_id", 509}}, "pad_token_id is 509"},
      {"llama", {{"quantization_config", {{"quant_method", "awq"}}}}, "quantization_config"},
      {"llama", {{"rope_scaling", "linear"}}, "rope_scaling is \"linear\""},
      {"llama", {{"rope_scaling", {{"type", "su"}, {"factor", 2}}}}, "rope_type is \"su\""},
      {"llama", {{"rope_scaling", {{"type", "linear"}}}}, "factor is missing"},
      {"llama", {{"rope_scaling", {{"factor", 2}}}}, "rope_type is missing"},
      {"llama", {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}}}}, "low_freq_factor is missing"},
      {"llama", {{"rope_parameters", {{"rope_type", "longrope"}, {"short_factor", Json::array({1.0})}}}}, "short_factor"},
      {"llama", {{"rope_parameters", with(yarn, {{"factor", 2}, {"truncate", 1}})}}, "truncate is 1"},
      {"llama", {{"rope_theta", -1}}, "rope_theta"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is not 1"},
      {"llama", {{"plimsoll_tokenizer", "words"}}, "plimsoll_tokenizer"},
      {"mistral", {{"sliding_window", 0}}, "sliding_window is 0"},
      {"qwen2", {{"use_sliding_window", true}, {"layer_types", Json::array({"full_attention"})}}, "layer_types"},
      {"qwen2",
       {{"use_sliding_window", true}, {"layer_types", Json::array({"full_attention", "linear_attention", "x"})}},
       "linear_attention"},
      {"mistral", {{"layer_types", Json::array({"sliding_attention", "full_attention", "sliding_attention"})}}, "layer_types"},
      {"llama", {{"is_causal", false}}, "is_causal is false"},
      {"llama", {{"rope_parameters", with(yarn, {{"original_max_position_embeddings", 8}})}}, "factor is missing"},
      {"llama", {{"rope_parameters", with(yarn, {{"factor", 2}, {"original_max_position_embeddings", 1}})}}, "embeddings is 1"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}}},
       "low_freq_factor is 4"},
      {"gemma2", Json::object(), "model_type is \"gemma2\""}};
  for (const Row& row : table) EXPECT_ERROR(read(with(small(row.type), row.more)), "E-FORMAT-CONFIG", row.fragment);
}

TEST(DecoderConfig, SurvivesRandomMutations) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  const Json rope{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}, {"beta_fast", 32}};
  const std::string good = with(small("qwen2"), {{"rope_parameters", rope}, {"use_sliding_window", true}}).dump();
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int edit = 0; edit < 3; ++edit) text[random() % text.size()] = "{}[]\",:0-9.e\xff"[random() % 13];
    try {
      read(text);
    } catch (const Error& error) {
      ASSERT_EQ(error.code, "E-FORMAT-CONFIG") << error.what() << " seed " << seed;
    }
  }
}

// A new model's file says the same when it is read.
TEST(DecoderConfig, RoundTrips) {
  for (const Family* family : {&kLlama, &kMistral, &kQwen2, &kQwen3}) {
    const ModelConfig made = family->defaults().with<DecoderConfig>([](DecoderConfig& c) {
      c.layers = 2, c.width = 48, c.heads = 6, c.kv_heads = 3, c.mlp_width = 100, c.context = 77, c.vocab = 300, c.tied = true;
      c.rope.theta = 5e5;
      c.byte_vocabulary = true;
    });
    const ScratchFolder folder;
    family->write(made, folder.path());
    const ModelConfig back = read_model(folder.path());
    EXPECT_EQ(&back.family(), family);
    EXPECT_EQ(back.text(), ModelConfig(*family, made.as<DecoderConfig>().settled()).text());
  }
}

TEST(DecoderConfig, WritingKeepsWhatItDoesNotKnow) {
  const ScratchFolder folder;
  const Json json = with(small("llama"), {{"hidden_act", "gelu"}, {"eos_token_id", {1, 2}}, {"x", {{"y", 1}}}});
  write_raw(folder / "config.json", json.dump());
  const ModelConfig config = read_model(folder.path());
  config.family().write(config, folder.path());
  EXPECT_EQ(Json::parse(read_raw(folder / "config.json")), json);
}

TEST(Decoder, NamesInFiles) {
  const ModelConfig untied(kLlama, DecoderConfig{}), tied(kLlama, DecoderConfig{.tied = true});
  using Names = std::vector<std::string>;
  EXPECT_EQ(decoder_stored(untied, "model.embed_tokens.weight"), (Names{"model.embed_tokens.weight", "embed_tokens.weight"}));
  EXPECT_EQ(decoder_stored(tied, "model.embed_tokens.weight"),
            (Names{"model.embed_tokens.weight", "embed_tokens.weight", "lm_head.weight"}));
  EXPECT_EQ(decoder_stored(untied, "lm_head.weight"), Names{"lm_head.weight"});
  EXPECT_TRUE(decoder_ignored("model.layers.3.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(decoder_ignored("model.layers.3.self_attn.q_proj.weight"));
}

TEST(Decoder, ParametersHaveTheNamesAndShapesOfFiles) {
  const DecoderConfig config{.layers = 1,
                             .width = 32,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_size = 16,
                             .mlp_width = 40,
                             .vocab = 50,
                             .qkv_bias = true,
                             .head_norms = true};
  const ModelGraph model = build_decoder(config, {.micro = 1, .tokens = 4}, {});
  std::vector<std::string> names;
  for (const ValueId id : model.graph.parameters()) {
    const Value& value = model.graph.values[id];
    names.push_back(fmt::format("{} {}", value.name.text(), to_text(value.type.shape)));
  }
  const std::string block = "model.layers.0.";
  const std::vector<std::string> expected{"model.embed_tokens.weight (50, 32)",
                                          block + "input_layernorm.weight (32)",
                                          block + "self_attn.q_proj.weight (64, 32)",
                                          block + "self_attn.q_proj.bias (64)",
                                          block + "self_attn.k_proj.weight (32, 32)",
                                          block + "self_attn.k_proj.bias (32)",
                                          block + "self_attn.v_proj.weight (32, 32)",
                                          block + "self_attn.v_proj.bias (32)",
                                          block + "self_attn.o_proj.weight (32, 64)",
                                          block + "self_attn.q_norm.weight (16)",
                                          block + "self_attn.k_norm.weight (16)",
                                          block + "post_attention_layernorm.weight (32)",
                                          block + "mlp.gate_proj.weight (40, 32)",
                                          block + "mlp.up_proj.weight (40, 32)",
                                          block + "mlp.down_proj.weight (32, 40)",
                                          "model.norm.weight (32)",
                                          "lm_head.weight (50, 32)"};
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace plimsoll
