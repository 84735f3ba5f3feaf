// GGUF files: the content of good ones, and an error with a code for every broken one.
#include "formats/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/gguf/gguf_cursor.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/gguf/gguf_weights.h"
#include "formats/gguf_builder.h"
#include "formats/scratch_folder.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/weights_folder.h"
#include "models/all.h"
#include "models/decoder/decoder.h"
#include "models/gguf.h"
#include "tensor/digests.h"

namespace plimsoll {
namespace {

std::vector<float> counted(std::size_t count, float from = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = from + static_cast<float>(i);
  return values;
}

std::vector<std::string> letters() {
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  return tokens;
}

// Two blocks, width 8, four heads of queries and two of keys, all of size 4.
GgufBuilder decoder(std::string_view architecture, std::uint64_t vocab = 26) {
  GgufBuilder file;
  const auto key = [&](std::string_view name) { return std::string(architecture) + "." + std::string(name); };
  file.string("general.architecture", architecture);
  file.u32(key("block_count"), 2);
  file.u32(key("context_length"), 64);
  file.u32(key("embedding_length"), 8);
  file.u32(key("feed_forward_length"), 32);
  file.u32(key("attention.head_count"), 4);
  file.u32(key("attention.head_count_kv"), 2);
  file.u32(key("attention.key_length"), 4);
  file.f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  file.f32(key("rope.freq_base"), 5e5f);
  file.u32("tokenizer.ggml.eos_token_id", 3);
  file.u32("tokenizer.ggml.eot_token_id", 5);
  file.floats("token_embd.weight", {vocab, 8}, counted(vocab * 8));
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    file.floats(block + "attn_q.weight", {16, 8}, counted(16 * 8));
    file.floats(block + "attn_k.weight", {8, 8}, counted(8 * 8));
    file.floats(block + "attn_v.weight", {8, 8}, counted(8 * 8));
    file.floats(block + "attn_norm.weight", {8}, counted(8));
  }
  return file;
}

class Gguf : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    write_raw(folder_ / "model.gguf", bytes);
    return folder_ / "model.gguf";
  }
  std::filesystem::path write(const GgufBuilder& builder) { return write(builder.file()); }
  GgufFile open(const GgufBuilder& builder) { return GgufFile::open(write(builder)); }

  ScratchFolder folder_;
};

// A byte of numbers and scales that are finite in every format: no exponent has all its bits.
template <class Number>
char finite(Number random) {
  return static_cast<char>(static_cast<unsigned>(random) & 0xBFU);
}

TEST_F(Gguf, KeysAndTensorsAreRead) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.u32("general.alignment", 64);
  builder.string("name", "a model");
  builder.f32("epsilon", 1e-5f);
  builder.flag("flag", true);
  builder.numbers<std::int32_t>("sizes", 5, {4, 4, 7});
  builder.strings("texts", {"one", "", "three"});
  builder.floats("b", {2, 3}, counted(6));
  builder.tensor("a", {2, 32}, 8, std::string(68, '\1'));
  const GgufFile file = open(builder);
  EXPECT_EQ(file.text("name"), "a model");
  EXPECT_EQ(file.number("epsilon"), 1e-5);
  EXPECT_EQ(file.flag("flag"), true);
  EXPECT_EQ(file.wholes("sizes", 3), (std::vector<std::int64_t>{4, 4, 7}));
  EXPECT_EQ(file.text("absent"), std::nullopt);
  EXPECT_ERROR((void)file.whole("name"), "E-FORMAT-GGUF", "name is of type string");
  EXPECT_ERROR((void)file.wholes("sizes", 2), "E-FORMAT-GGUF", "sizes has 3 elements");
  GgufCursor texts = GgufCursor::texts(file, "texts");
  EXPECT_EQ(texts.next_text(), "one");
  EXPECT_EQ(texts.next_text(), "");
  EXPECT_EQ(texts.next_text(), "three");
  EXPECT_TRUE(texts.at_end());
  ASSERT_NE(file.find("b"), nullptr);
  EXPECT_EQ(file.find("b")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.find("a")->blocks, BlockFormat::q8_0);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Gguf, TypesThatAreStoredDecodeInAnyRange) {
  TestBytes random(5);
  for (const std::uint32_t type : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 12u, 13u, 14u, 30u}) {
    GgufBuilder builder;
    builder.tensor("x", {3, 512}, type, std::string(3 * 512 * 4, '\0'));
    std::string bytes = builder.file();
    const GgufFile probe = GgufFile::open(write(bytes));
    const GgufTensor& shape = *probe.find("x");
    for (std::int64_t i = 0; i < shape.bytes; ++i) bytes[static_cast<std::size_t>(shape.offset + i)] = finite(random.next());
    const GgufFile file = GgufFile::open(write(bytes));
    std::vector<float> whole(3 * 512), part(700);
    std::vector<std::byte> small(256), large(1 << 16);
    file.read_f32(*file.find("x"), 0, whole, large);
    for (const std::int64_t begin : {0, 1, 255, 300, 836}) {
      file.read_f32(*file.find("x"), begin, part, small);
      EXPECT_EQ(digest(part), digest(std::span<const float>(whole).subspan(static_cast<std::size_t>(begin), 700)))
          << shape.stored_as << " from " << begin;
    }
    if (shape.blocks) {
      std::vector<float> blocks(3 * 512);
      decode_blocks({*shape.blocks, 3, 512}, reinterpret_cast<const std::byte*>(bytes.data()) + shape.offset, 0, blocks);
      EXPECT_EQ(digest(blocks), digest(whole)) << shape.stored_as;
    }
  }
}

struct Broken {
  const char* says;
  void (*with)(GgufBuilder&);
};

TEST_F(Gguf, BrokenFilesSayWhatIsBroken) {
  static const std::string kOne(128, '\0');
  const Broken all[] = {
      {"its version is 1", [](GgufBuilder& b) { b.version = 1; }},
      {"big-endian", [](GgufBuilder& b) { b.version = 3u << 24; }},
      {"claims 18446744073709551615 tensors", [](GgufBuilder& b) { b.more_tensors = ~std::uint64_t{0}; }},
      {"claims 9000 tensors", [](GgufBuilder& b) { b.more_tensors = 9000; }},
      {"claims 9000 keys", [](GgufBuilder& b) { b.more_keys = 9000; }},
      {"takes 9223372036854775807 bytes",
       [](GgufBuilder& b) { b.key("k", 8, GgufBuilder::raw<std::uint64_t>(~std::uint64_t{0} >> 1)); }},
      {"type 77", [](GgufBuilder& b) { b.key("k", 77, "xxxx"); }},
      {"array without elements", [](GgufBuilder& b) { b.strings("k", {}); }},
      {"array of arrays",
       [](GgufBuilder& b) {
         b.numbers<std::uint32_t>("k", 9, {1, 2});
       }},
      {"claims 1152921504606846976 elements",
       [](GgufBuilder& b) { b.key("k", 9, GgufBuilder::raw<std::uint32_t>(4) + GgufBuilder::raw(std::uint64_t{1} << 60)); }},
      {"claims 4611686018427387904 elements",
       [](GgufBuilder& b) { b.key("k", 9, GgufBuilder::raw<std::uint32_t>(8) + GgufBuilder::raw(std::uint64_t{1} << 62)); }},
      {"key k appears twice", [](GgufBuilder& b) { b.u32("k", 1), b.u32("k", 1); }},
      {"has 600 bytes", [](GgufBuilder& b) { b.u32(std::string(600, 'k'), 1); }},
      {"general.alignment is 24", [](GgufBuilder& b) { b.u32("general.alignment", 24); }},
      {"tensor x is stored as IQ2_XS",
       [](GgufBuilder& b) {
         b.tensor("x", {1, 256}, 17, kOne);
       }},
      {"tensor x is of type 33",
       [](GgufBuilder& b) {
         b.tensor("x", {1, 256}, 33, kOne);
       }},
      {"has 33 elements as Q8_0",
       [](GgufBuilder& b) {
         b.tensor("x", {1, 33}, 8, kOne);
       }},
      {"has 5 axes",
       [](GgufBuilder& b) {
         b.tensor("x", {1, 1, 1, 1, 1}, 0, kOne);
       }},
      {"has 0 axes", [](GgufBuilder& b) { b.tensor("x", {}, 0, kOne); }},
      {"has 0 elements",
       [](GgufBuilder& b) {
         b.tensor("x", {0, 4}, 0, kOne);
       }},
      {"too many elements",
       [](GgufBuilder& b) {
         b.tensor("x", {1u << 31, 1u << 31}, 0, kOne);
       }},
      {"takes 4194304 bytes",
       [](GgufBuilder& b) {
         b.tensor("x", {1024, 1024}, 0, kOne);
       }},
      {"into the data of a file", [](GgufBuilder& b) { b.tensor_at("x", {4}, 0, std::uint64_t{1} << 63); }},
      {"begins at byte 7", [](GgufBuilder& b) { b.tensor("a", {32}, 0, kOne), b.tensor_at("x", {4}, 0, 7); }},
      {"tensors a and x overlap", [](GgufBuilder& b) { b.tensor("a", {32}, 0, kOne), b.tensor_at("x", {4}, 0, 32); }},
      {"tensor a appears twice", [](GgufBuilder& b) { b.tensor("a", {32}, 0, kOne), b.tensor("a", {32}, 0, kOne); }},
  };
  for (const Broken& broken : all) {
    GgufBuilder builder;
    broken.with(builder);
    EXPECT_ERROR(open(builder), "E-FORMAT-GGUF", broken.says);
  }
  EXPECT_ERROR(GgufFile::open(write("GGUX1234567890")), "E-FORMAT-GGUF", "begins with 'GGUX'");
  EXPECT_ERROR(GgufFile::open(write("GG")), "E-FORMAT-GGUF", "");
}

// Every byte of the header in turn, cuts at every place, and random bytes: an error with a code or a file, nothing else.
TEST_F(Gguf, NoByteOfTheHeaderBreaksTheReader) {
  GgufBuilder builder = decoder("llama");
  builder.string("tokenizer.ggml.model", "llama");
  builder.strings("tokenizer.ggml.tokens", letters());
  builder.numbers<float>("tokenizer.ggml.scores", 6, counted(26));
  const std::string good = builder.file();
  const std::size_t header = good.find("blk.1.attn_norm.weight") + 60;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const std::filesystem::path path = write(bytes);
      const WeightFiles weights = weights_of_model(path);
      (void)gguf_config(weights.gguf()->file());
      (void)read_model(path);
      (void)end_tokens(path);
      (void)Tokenizer::load(path);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind != ErrorKind::internal && !error.code.empty()) << error.what();
    }
  };
  attempt(good);
  TestBytes random(11);
  for (std::size_t at = 0; at < header; ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(at % 3 == 0 ? 0xff : at % 3 == 1 ? 0 : random.next());
    attempt(bytes);
    if (at % 5 == 0) attempt(good.substr(0, at));
  }
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes = good;
    for (int change = 0; change < 4; ++change) {
      bytes[static_cast<std::size_t>(random.next() * 256 + random.next()) % header] = static_cast<char>(random.next());
    }
    attempt(bytes);
  }
}

std::vector<float> read(const GgufWeights& weights, const char* name, std::int64_t begin, std::size_t count) {
  std::vector<float> values(count);
  std::vector<std::byte> staging(256);
  const StoredTensor* tensor = weights.find(name);
  if (tensor != nullptr) weights.read_f32(*tensor, begin, values, staging);
  return values;
}

TEST_F(Gguf, RowsOfLlamasQueriesAndKeysComeBackToTheirOrder) {
  const WeightFiles llama_files = weights_of_model(write(decoder("llama")));
  const GgufWeights& llama = *llama_files.gguf();
  // A head of four rows: 0, 2, 1, 3.
  EXPECT_EQ(read(llama, "model.layers.1.self_attn.q_proj.weight", 8, 8), counted(8, 16));
  EXPECT_EQ(read(llama, "model.layers.1.self_attn.q_proj.weight", 16, 8), counted(8, 8));
  EXPECT_EQ(read(llama, "model.layers.1.self_attn.q_proj.weight", 5 * 8 + 3, 2), counted(2, 6 * 8 + 3));
  EXPECT_EQ(read(llama, "model.layers.0.self_attn.k_proj.weight", 8, 8), counted(8, 16));
  EXPECT_EQ(read(llama, "model.layers.0.self_attn.v_proj.weight", 8, 8), counted(8, 8));
  const WeightFiles qwen_files = weights_of_model(write(decoder("qwen2")));
  const GgufWeights& qwen = *qwen_files.gguf();
  EXPECT_EQ(read(qwen, "model.layers.0.self_attn.q_proj.weight", 8, 8), counted(8, 8));
}

TEST_F(Gguf, RawBlocksComeInTheOrderOfTheModel) {
  TestBytes random(2);
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  builder.u32("llama.attention.head_count", 2);
  std::string stored;
  for (int i = 0; i < 8 * 2 * 18; ++i) stored += finite(random.next());
  builder.tensor("blk.0.attn_q.weight", {8, 64}, 2, stored);
  builder.tensor("blk.0.attn_v.weight", {8, 64}, 2, stored);
  const WeightFiles weights_files = weights_of_model(write(builder));
  const GgufWeights& weights = *weights_files.gguf();
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
    const StoredTensor& tensor = *weights.find(name);
    const BlockMatrix matrix = *weights.blocks(tensor);
    EXPECT_EQ(matrix, (BlockMatrix{BlockFormat::q4_0, 8, 64}));
    std::vector<std::byte> bytes(static_cast<std::size_t>(stored_bytes(matrix).n));
    for (std::size_t at = 0, part = 1; at < bytes.size(); at += part, part = 2 * part + 1) {  // rows are cut
      weights.read_blocks(tensor, static_cast<std::int64_t>(at), std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
    }
    std::vector<float> values(8 * 64);
    decode_blocks(matrix, bytes.data(), 0, values);
    EXPECT_EQ(digest(values), digest(read(weights, name, 0, 8 * 64))) << name;
  }
}

TEST_F(Gguf, MatricesOfGpt2AreTurned) {
  GgufBuilder builder;
  builder.string("general.architecture", "gpt2");
  builder.u32("gpt2.attention.head_count", 2);
  builder.floats("blk.0.attn_qkv.weight", {12, 4}, counted(48));
  builder.floats("blk.0.attn_qkv.bias", {12}, counted(12));
  builder.floats("position_embd.weight", {6, 4}, counted(24));
  const WeightFiles weights_files = weights_of_model(write(builder));
  const GgufWeights& weights = *weights_files.gguf();
  EXPECT_EQ(weights.find("h.0.attn.c_attn.weight")->shape, (Shape{4, 12}));
  const std::vector<float> turned = read(weights, "h.0.attn.c_attn.weight", 0, 48);
  for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(turned[i], static_cast<float>(i % 12 * 4 + i / 12));
  EXPECT_EQ(read(weights, "h.0.attn.c_attn.weight", 7, 20), std::vector<float>(turned.begin() + 7, turned.begin() + 27));
  EXPECT_EQ(read(weights, "h.0.attn.c_attn.bias", 2, 3), counted(3, 2));
  EXPECT_EQ(read(weights, "wpe.weight", 4, 4), counted(4, 4));
  EXPECT_FALSE(weights.blocks(*weights.find("h.0.attn.c_attn.weight")));
}

TEST_F(Gguf, KeysBecomeAConfiguration) {
  const std::filesystem::path path = write(decoder("llama"));
  const auto json = gguf_config(GgufFile::open(path));
  EXPECT_EQ(json["model_type"], "llama");
  EXPECT_EQ(json["vocab_size"], 26);
  EXPECT_EQ(json["rms_norm_eps"], 1e-5);
  EXPECT_EQ(json["tie_word_embeddings"], true);
  EXPECT_EQ(json["eos_token_id"], 3);
  EXPECT_EQ(end_tokens(path), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(read_model(path).family().kind, "llama");
  GgufBuilder sliding = decoder("llama");
  sliding.u32("llama.attention.sliding_window", 16);
  EXPECT_EQ(read_model(write(sliding)).family().kind, "mistral");
  for (const char* architecture : {"qwen2", "qwen3"}) {
    EXPECT_EQ(read_model(write(decoder(architecture))).family().kind, architecture);
  }
  EXPECT_ERROR(gguf_config(open(decoder("gemma3"))), "E-FORMAT-GGUF", "its architecture is 'gemma3'");
  const std::pair<const char*, std::uint32_t> refused[] = {
      {"llama.expert_count", 8}, {"llama.rope.dimension_count", 2}, {"split.count", 3}, {"llama.attention.value_length", 8}};
  for (const auto& [key, value] : refused) {
    GgufBuilder builder = decoder("llama");
    builder.u32(key, value);
    const std::string says = std::string(key) == "split.count" ? "one of 3 parts" : key;
    EXPECT_ERROR(gguf_config(open(builder)), "E-FORMAT-GGUF", says);
  }
}

// Files of 2023 have rope.scale_linear, and llama.cpp takes a factor without a type as linear.
TEST_F(Gguf, ScalingsOfAnglesAreThoseThatLlamaCppReads) {
  using Put = std::function<void(GgufBuilder&)>;
  const auto number = [](const char* key, float value) {
    return [=](GgufBuilder& b) { b.f32("llama.rope." + std::string(key), value); };
  };
  const auto type = [](const char* name) { return [=](GgufBuilder& b) { b.string("llama.rope.scaling.type", name); }; };
  const auto scaling = [&](const std::vector<Put>& all) {
    GgufBuilder builder = decoder("llama");
    for (const Put& put : all) put(builder);
    return gguf_config(open(builder))["rope_scaling"];
  };
  const Put four = number("scaling.factor", 4), old = number("scale_linear", 4);
  const nlohmann::ordered_json linear = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(scaling({type("linear"), four}), linear);
  EXPECT_EQ(scaling({four}), linear);
  EXPECT_EQ(scaling({old}), linear);
  EXPECT_EQ(scaling({old, type("linear")}), linear);
  EXPECT_EQ(scaling({four, number("scale_linear", 2)}), linear);
  EXPECT_TRUE(scaling({number("scale_linear", 1)}).is_null());
  EXPECT_TRUE(scaling({number("scale_linear", 0)}).is_null());
  EXPECT_TRUE(scaling({four, type("none")}).is_null());
  EXPECT_EQ(scaling({type("yarn"), old})["factor"], 4.0);
  const auto yarn = scaling({type("yarn"), four, number("scaling.yarn_beta_fast", 8), number("scaling.yarn_beta_slow", 4)});
  EXPECT_EQ(yarn["beta_fast"], 8.0);
  EXPECT_EQ(yarn["beta_slow"], 4.0);
  EXPECT_EQ(scaling({type("yarn"), four, number("scaling.yarn_ext_factor", -1)}), scaling({type("yarn"), four}));
  const std::pair<const char*, float> refused[] = {
      {"scaling.yarn_ext_factor", 0.5f}, {"scaling.yarn_attn_factor", 2}, {"scaling.attn_factor", 2}, {"scale_linear", -1}};
  for (const auto& [key, value] : refused) {
    EXPECT_ERROR(scaling({type("yarn"), number(key, value)}), "E-FORMAT-GGUF", std::string("llama.rope.") + key);
  }
  EXPECT_ERROR(scaling({four, number("scaling.yarn_ext_factor", 1)}), "E-FORMAT-GGUF", "llama.rope.scaling.yarn_ext_factor is 1");
}

TEST_F(Gguf, KeysThatAreNotKnownAreRefusedByName) {
  for (const char* architecture : {"llama", "mistral", "qwen2", "qwen3"}) {
    const std::string prefix = std::string(architecture) + ".";
    for (const char* key : {"attention.sink_count", "rope.freq_base_swa", "attention.sliding_window_pattern", "x"}) {
      GgufBuilder builder = decoder(architecture);
      builder.u32(prefix + key, 1);
      EXPECT_ERROR(gguf_config(open(builder)), "E-FORMAT-GGUF", prefix + key + ", which is not known");
    }
    GgufBuilder builder = decoder(architecture);
    builder.flag(prefix + "attention.causal", true);
    builder.u32(prefix + "vocab_size", 26);
    builder.flag(prefix + "rope.scaling.finetuned", false);
    builder.u32("general.file_type", 0);
    builder.u32("another.attention.scale", 2);
    EXPECT_EQ(gguf_config(open(builder))["num_hidden_layers"], 2);
    GgufBuilder both_ways = decoder(architecture);
    both_ways.flag(prefix + "attention.causal", false);
    EXPECT_ERROR(gguf_config(open(both_ways)), "E-FORMAT-GGUF", prefix + "attention.causal is false");
  }
}

float llama3_divisor(double wave, double factor, double low, double high, double original) {
  if (wave > original / low) return static_cast<float>(factor);
  if (wave < original / high) return 1;
  const double smooth = (original / wave - low) / (high - low);
  return static_cast<float>(1 / ((1 - smooth) / factor + smooth));
}

TEST_F(Gguf, DivisorsOfAnglesTellTheScalingOfLlama3) {
  for (const auto& [factor, high, original, head] :
       {std::tuple(8.0, 4.0, 8192.0, 128), {32.0, 4.0, 8192.0, 64}, {16.0, 2.0, 4096.0, 128}}) {
    std::vector<float> divisors;
    for (int pair = 0; pair < head / 2; ++pair) {
      divisors.push_back(llama3_divisor(2 * std::numbers::pi * std::pow(5e5, 2.0 * pair / head), factor, 1, high, original));
    }
    const auto rope = rope_of_divisors(divisors, 5e5, 0);
    ASSERT_TRUE(rope) << factor;
    EXPECT_EQ(rope->factor, factor);
    EXPECT_EQ(rope->low, 1);
    EXPECT_EQ(rope->high, high);
    EXPECT_EQ(rope->original, static_cast<std::int64_t>(original));
    divisors[3] = 1.5f;
    EXPECT_FALSE(rope_of_divisors(divisors, 5e5, 0));
  }
}

// Bytes as GPT-2 writes them, so that any text has tokens.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  unsigned next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const unsigned c = printable ? b : next++;
    tokens.push_back(c < 128 ? std::string(1, static_cast<char>(c))
                             : std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))});
  }
  return tokens;
}

GgufBuilder with_tokenizer(const char* cutting) {
  GgufBuilder builder = decoder("llama", 262);
  std::vector<std::string> tokens = byte_tokens();
  tokens.insert(tokens.end(), {"11", "111", "\xC4\xA0\xC4\xA0", "<|end|>", "<think>", "[PAD261]"});
  std::vector<std::int32_t> types(256 + 3, 1);
  types.insert(types.end(), {3, 4, 5});
  builder.string("tokenizer.ggml.model", "gpt2");
  if (cutting != nullptr) builder.string("tokenizer.ggml.pre", cutting);
  builder.strings("tokenizer.ggml.tokens", tokens);
  builder.numbers("tokenizer.ggml.token_type", 5, types);
  builder.strings("tokenizer.ggml.merges", {"1 1", "11 1", "\xC4\xA0 \xC4\xA0"});
  builder.u32("tokenizer.ggml.bos_token_id", 259);
  builder.string("tokenizer.chat_template", "{{ messages }}");
  return builder;
}

TEST_F(Gguf, ByteLevelVocabulariesAreCutAsTheirNameSays) {
  using Ids = std::vector<Token>;
  Tokenizer gpt2 = Tokenizer::load(write(with_tokenizer("gpt-2")));
  EXPECT_EQ(gpt2.size(), 261);  // without the padding
  EXPECT_EQ(gpt2.encode("111"), (Ids{257}));
  EXPECT_EQ(gpt2.encode("a<|end|><think>"), (Ids{'a', 259, 260}));
  EXPECT_EQ(gpt2.encode("  1"), (Ids{' ', ' ', '1'}));
  EXPECT_TRUE(gpt2.is_special(259));
  EXPECT_FALSE(gpt2.is_special(260));
  Tokenizer smollm = Tokenizer::load(write(with_tokenizer("smollm")));
  EXPECT_EQ(smollm.encode("111"), (Ids{'1', '1', '1'}));
  EXPECT_EQ(smollm.encode("  1"), (Ids{258, '1'}));
  Tokenizer qwen = Tokenizer::load(write(with_tokenizer("qwen2")));
  EXPECT_EQ(qwen.encode("e\u0301"), (Ids{0xc3, 0xa9}));  // composed
  Tokenizer llama = Tokenizer::load(write(with_tokenizer("llama-bpe")));
  EXPECT_EQ(llama.encode("1111"), (Ids{259, 257, '1'}));
  EXPECT_EQ(llama.decode(llama.encode("1111 x")), "1111 x");
  EXPECT_ERROR(Tokenizer::load(write(with_tokenizer("viking"))), "E-FORMAT-GGUF", "cuts text as 'viking'");
  EXPECT_ERROR(Tokenizer::load(write(with_tokenizer(nullptr))), "E-FORMAT-GGUF", "no key tokenizer.ggml.pre");
}

TEST_F(Gguf, ScoresBecomeMerges) {
  GgufBuilder builder = decoder("llama");
  const std::string mark = "\xE2\x96\x81";
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>", "<0x0A>", mark, "a", "b", "ab", mark + "a", "ba", mark + "ab", "bab"};
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[0] = 2, types[1] = types[2] = 3, types[3] = 6;
  builder.string("tokenizer.ggml.model", "llama");
  builder.strings("tokenizer.ggml.tokens", tokens);
  builder.numbers("tokenizer.ggml.token_type", 5, types);
  builder.numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, 0, -9, -8, -7, -2, -1, -3, -4, -5});
  builder.u32("tokenizer.ggml.bos_token_id", 1);
  builder.u32("tokenizer.ggml.unknown_token_id", 0);
  Tokenizer tokenizer = Tokenizer::load(write(builder));
  using Ids = std::vector<Token>;
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, 10}));      // the mark and a come first, then b
  EXPECT_EQ(tokenizer.encode("bab"), (Ids{1, 4, 11}));  // ab, then b before it
  EXPECT_EQ(tokenizer.encode("a\nc"), (Ids{1, 8, 3, 0}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a")), "ab a");
  builder.flag("tokenizer.ggml.add_space_prefix", false);
  builder.flag("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(Tokenizer::load(write(builder)).encode("ab"), (Ids{7}));
}

TEST_F(Gguf, AFolderGetsWhatTheFileSays) {
  const GgufFile file = open(with_tokenizer("llama-bpe"));
  write_gguf_config(file, folder_.path(), true);
  write_gguf_tokenizer(file, folder_.path(), true);
  EXPECT_EQ(read_model(folder_.path()), read_model(file.path()));
  EXPECT_EQ(end_tokens(folder_.path()), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(Tokenizer::load(folder_.path()).hash(), Tokenizer::load(file.path()).hash());
  EXPECT_EQ(read_raw(folder_ / "chat_template.jinja"), "{{ messages }}");
  const auto config = nlohmann::json::parse(read_raw(folder_ / "tokenizer_config.json"));
  EXPECT_EQ(config["bos_token"], "<|end|>");
  write_raw(folder_ / "chat_template.jinja", "mine");
  write_gguf_tokenizer(file, folder_.path(), false);
  EXPECT_EQ(read_raw(folder_ / "chat_template.jinja"), "mine");
}

}  // namespace
}  // namespace plimsoll
