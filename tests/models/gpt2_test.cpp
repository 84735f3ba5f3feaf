#include "models/gpt2/gpt2.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "formats/config_json.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "models/all.h"

namespace plimsoll {
namespace {

nlohmann::json small_config() {
  return {{"model_type", "gpt2"}, {"n_layer", 2}, {"n_embd", 64}, {"n_head", 4}, {"n_positions", 32}, {"vocab_size", 300}};
}

Gpt2Config read(const ScratchFolder& folder, const std::string& text) {
  write_raw(folder / "config.json", text);
  return read_model(folder.path()).as<Gpt2Config>();
}

TEST(Gpt2Config, RoundTrips) {
  ScratchFolder folder;
  Gpt2Config config{3, 96, 6, 48, 256, 1e-6, 0.0, 0.1, 0.25, 0.03, true};
  write_gpt2_config(config, folder.path());
  EXPECT_EQ(read_gpt2_config(ConfigReader(folder / "config.json")), config);
  config = Gpt2Config{};
  write_gpt2_config(config, folder.path());
  EXPECT_EQ(read_gpt2_config(ConfigReader(folder / "config.json")), config);
}

TEST(Gpt2Config, WritingKeepsWhatItDoesNotKnow) {
  ScratchFolder folder;
  nlohmann::json json = small_config();
  json["eos_token_id"] = 0;
  json["of_another_tool"] = {{"a", {1, 2}}};
  json["dtype"] = "float16";
  Gpt2Config config = read(folder, json.dump());
  config.residual_dropout = 0.25;
  write_gpt2_config(config, folder.path());
  const nlohmann::json saved = nlohmann::json::parse(read_raw(folder / "config.json"));
  EXPECT_EQ(saved.at("eos_token_id"), 0);
  EXPECT_FALSE(saved.contains("bos_token_id"));
  EXPECT_EQ(saved.at("of_another_tool"), json["of_another_tool"]);
  EXPECT_EQ(saved.at("resid_pdrop"), 0.25);
  EXPECT_EQ(saved.at("dtype"), "float16") << "who writes the tensors says their type";
  EXPECT_EQ(read_gpt2_config(ConfigReader(folder / "config.json")), config);
}

TEST(Gpt2Config, DefaultsOfAbsentKeys) {
  ScratchFolder folder;
  const Gpt2Config config = read(folder, small_config().dump());
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
  EXPECT_EQ(config.residual_dropout, 0.1);
  EXPECT_FALSE(config.byte_vocabulary);
}

TEST(Gpt2Config, ReadsTheGoldenFolders) {
  for (const char* name : {"gpt2_small", "gpt2_old"}) {
    const std::filesystem::path folder = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/golden" / name;
    if (!std::filesystem::exists(folder / "config.json")) GTEST_SKIP() << folder << " is absent";
    EXPECT_GT(read_gpt2_config(ConfigReader(folder / "config.json")).layers, 0) << name;
  }
}

TEST(Gpt2Config, RefusesWhatItCannotCompute) {
  struct Row {
    const char* key;
    nlohmann::json value;
    const char* fragment;
  };
  const Row table[] = {{"model_type", "bert", "model_type"},
                       {"model_type", nullptr, "model_type"},
                       {"n_layer", 0, "n_layer is 0"},
                       {"n_layer", -3, "n_layer is -3"},
                       {"n_layer", 1.5, "n_layer is 1.5"},
                       {"n_layer", "12", "n_layer is \"12\""},
                       {"n_layer", 18446744073709551615ull, "n_layer is 18446744073709551615"},
                       {"n_embd", 1 << 21, "n_embd is 2097152"},
                       {"n_head", 5, "n_embd is 64 and n_head is 5"},
                       {"n_positions", nullptr, "n_positions is null"},
                       {"vocab_size", nlohmann::json::array(), "vocab_size is []"},
                       {"n_inner", 128, "n_inner is 128; 256"},
                       {"activation_function", "relu", "activation_function is \"relu\""},
                       {"activation_function", "gelu", "\"gelu_new\" or \"gelu_pytorch_tanh\""},
                       {"scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx is true"},
                       {"reorder_and_upcast_attn", true, "reorder_and_upcast_attn"},
                       {"add_cross_attention", true, "add_cross_attention"},
                       {"scale_attn_weights", false, "scale_attn_weights is false"},
                       {"tie_word_embeddings", "yes", "tie_word_embeddings is \"yes\""},
                       {"layer_norm_epsilon", 0, "layer_norm_epsilon is 0"},
                       {"layer_norm_epsilon", "x", "layer_norm_epsilon"},
                       {"embd_pdrop", 1.0, "embd_pdrop is 1.0"},
                       {"attn_pdrop", -0.1, "attn_pdrop"},
                       {"resid_pdrop", nullptr, "resid_pdrop is null"},
                       {"plimsoll_tokenizer", "words", "plimsoll_tokenizer"}};
  ScratchFolder folder;
  for (const Row& row : table) {
    nlohmann::json json = small_config();
    json[row.key] = row.value;
    EXPECT_ERROR(read(folder, json.dump()), "E-FORMAT-CONFIG", row.fragment);
  }
  for (const char* key : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size"}) {
    nlohmann::json json = small_config();
    json.erase(key);
    EXPECT_ERROR(read(folder, json.dump()), "E-FORMAT-CONFIG", fmt::format("{} is missing", key));
  }
}

TEST(Gpt2Config, RefusesWhatIsNoConfig) {
  ScratchFolder folder;
  EXPECT_ERROR(read_model(folder.path()), "E-IO-MISSING", "config.json");
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{}x"), std::string("null"),
                                  std::string(500000, '['), "{\"a\":" + std::string(100000, '['), std::string(2 << 20, ' ')}) {
    EXPECT_ERROR(read(folder, text), "E-FORMAT-CONFIG", "config.json");
  }
}

TEST(Gpt2Config, SurvivesRandomMutations) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  ScratchFolder folder;
  const std::string good = small_config().dump();
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (int edit = 0; edit < 3; ++edit) text[random() % text.size()] = "{}[]\",:0-9.e\xff"[random() % 13];
    try {
      read(folder, text);
    } catch (const Error& error) {
      ASSERT_EQ(error.code, "E-FORMAT-CONFIG") << error.what() << " seed " << seed;
    }
  }
}

TEST(Gpt2, NamesInFiles) {
  const ModelConfig config = kGpt2.defaults();
  EXPECT_EQ(kGpt2.stored(config, "wte.weight"),
            (std::vector<std::string>{"wte.weight", "transformer.wte.weight", "lm_head.weight"}));
  EXPECT_EQ(kGpt2.stored(config, "wpe.weight"), (std::vector<std::string>{"wpe.weight", "transformer.wpe.weight"}));
  EXPECT_FALSE(kGpt2.ignored("lm_head.weight"));
  for (const char* extra : {"transformer.h.3.attn.bias", "h.3.attn.masked_bias"}) EXPECT_TRUE(kGpt2.ignored(extra));
  for (const char* parameter : {"h.11.attn.c_attn.bias", "transformer.h.0.attn.c_attn.weight", "score.weight"}) {
    EXPECT_FALSE(kGpt2.ignored(parameter)) << parameter;
  }
}

}  // namespace
}  // namespace plimsoll
