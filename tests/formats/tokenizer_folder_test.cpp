#include "formats/tokenizer_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// The 256 bytes as GPT-2 writes them, "ab", and the end of text.
class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const int code = printable ? byte : next++;
      std::string text;
      if (code < 0x80) {
        text = static_cast<char>(code);
      } else {
        text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      }
      vocab_[text] = byte;
    }
    vocab_["ab"] = 256;
    vocab_["<|endoftext|>"] = 257;
    write_raw(folder_ / "vocab.json", vocab_.dump());
    write_raw(folder_ / "merges.txt", "#version: 0.2\na b\n");
  }

  // As transformers 4 writes it for GPT-2.
  Json tokenizer() const {
    return {{"version", "1.0"},
            {"added_tokens", {{{"id", 257}, {"content", "<|endoftext|>"}, {"special", true}}}},
            {"normalizer", nullptr},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
            {"post_processor", {{"type", "ByteLevel"}, {"add_prefix_space", true}}},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"continuing_subword_prefix", ""},
              {"end_of_word_suffix", ""},
              {"ignore_merges", false},
              {"vocab", vocab_},
              {"merges", {"a b"}}}}};
  }
  std::vector<AddedToken> unread() const { return unread_tokens(folder_.path(), BpeVocabulary::load(folder_.path())); }
  std::vector<AddedToken> unread(const Json& tokenizer) const {
    write_raw(folder_ / "tokenizer.json", tokenizer.dump());
    return unread();
  }

  ScratchFolder folder_;
  Json vocab_;
};

TEST_F(TokenizerFolder, OfGpt2SaysNothingNew) {
  EXPECT_TRUE(unread().empty());
  write_raw(folder_ / "tokenizer_config.json", R"({"model_max_length": 1024, "eos_token": "<|endoftext|>",
    "added_tokens_decoder": {"257": {"content": "<|endoftext|>"}}})");
  write_raw(folder_ / "special_tokens_map.json", R"({"bos_token": {"content": "<|endoftext|>"}})");
  EXPECT_TRUE(unread(tokenizer()).empty());
  Json pairs = tokenizer();
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_TRUE(unread(pairs).empty());
}

TEST_F(TokenizerFolder, AddedTokensAreFound) {
  write_raw(folder_ / "added_tokens.json", R"({"<|user|>": 258})");
  write_raw(folder_ / "special_tokens_map.json", R"({"pad_token": "[PAD]", "additional_special_tokens": ["<|user|>", "<|x|>"]})");
  write_raw(folder_ / "tokenizer_config.json", R"({"added_tokens_decoder": {"259": {"content": "<think>"}}})");
  Json more = tokenizer();
  more["added_tokens"].push_back({{"id", 260}, {"content", "<|end|>"}});
  std::vector<std::string> texts;
  for (const AddedToken& token : unread(more)) texts.push_back(token.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"<|end|>", "<|user|>", "<|x|>", "[PAD]", "<think>"}));
  EXPECT_ERROR(refuse_unread("say <|user|> this", unread(more), "text"), "E-TOKENIZER", "byte 4 begins \"<|user|>\"");
  EXPECT_NO_THROW(refuse_unread("say <|endoftext|> this", unread(more), "text"));
}

TEST_F(TokenizerFolder, AnotherTokenizerIsRefused) {
  const auto changed = [&](const char* place, const Json& value) {
    Json json = tokenizer();
    json[Json::json_pointer(place)] = value;
    return json;
  };
  EXPECT_ERROR(unread(changed("/normalizer", {{"type", "NFC"}})), "E-TOKENIZER", "normalizer");
  EXPECT_ERROR(unread(changed("/pre_tokenizer", {{"type", "Sequence"}})), "E-TOKENIZER", "not ByteLevel");
  EXPECT_ERROR(unread(changed("/pre_tokenizer", nullptr)), "E-TOKENIZER", "not ByteLevel");
  EXPECT_ERROR(unread(changed("/pre_tokenizer/add_prefix_space", true)), "E-TOKENIZER", "add_prefix_space is true");
  EXPECT_ERROR(unread(changed("/model/type", "Unigram")), "E-TOKENIZER", "Unigram");
  EXPECT_ERROR(unread(changed("/model/vocab/zz", 258)), "E-TOKENIZER", "\"zz\" as 258");
  EXPECT_ERROR(unread(changed("/model/vocab/ab", 257)), "E-TOKENIZER", "\"ab\" as 257");
  EXPECT_ERROR(unread(changed("/model/merges/0", "b a")), "E-TOKENIZER", "merge 1 is \"b a\"");
  EXPECT_ERROR(unread(changed("/model/merges", Json::array())), "E-TOKENIZER", "0 merges");
  Json fewer = tokenizer();
  fewer["model"]["vocab"].erase("ab");
  EXPECT_ERROR(unread(fewer), "E-TOKENIZER", "lacks token 256");
  write_raw(folder_ / "tokenizer.json", "{\"model\": ");
  EXPECT_ERROR(unread(), "E-TOKENIZER", "not JSON");
  std::filesystem::remove(folder_ / "tokenizer.json");
  write_raw(folder_ / "added_tokens.json", "[]");
  EXPECT_ERROR(unread(), "E-TOKENIZER", "not a JSON object");
}

TEST_F(TokenizerFolder, AloneIsNamed) {
  write_raw(folder_ / "tokenizer.json", tokenizer().dump());
  std::filesystem::remove(folder_ / "vocab.json");
  EXPECT_ERROR(BpeVocabulary::load(folder_.path()), "E-TOKENIZER", "tokenizer.json alone");
}

}  // namespace
}  // namespace plimsoll
