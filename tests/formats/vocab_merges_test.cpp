#include "formats/tokenizer/vocab_merges.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "expect_error.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/utf8.h"
#include "scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kShared = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "../shared/data";

// The published vocabulary, read once; null where it is absent.
Tokenizer* gpt2() {
  static const std::unique_ptr<Tokenizer> tokenizer = std::filesystem::exists(kShared / "gpt2/encoder.json")
                                                          ? std::make_unique<Tokenizer>(Tokenizer::load(kShared / "gpt2"))
                                                          : nullptr;
  return tokenizer.get();
}

std::vector<Token> encoded(std::string_view text, Tokenizer& tokenizer = *gpt2()) {
  std::vector<Token> tokens;
  EXPECT_EQ(tokenizer.encode_bytes(text, true, tokens), text.size());
  return tokens;
}

std::string decoded(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += gpt2()->inside(token);
  return text;
}

#define NEEDS_GPT2() \
  if (gpt2() == nullptr) GTEST_SKIP() << "the GPT-2 vocabulary is absent: " << (kShared / "gpt2")

std::string random_text(std::mt19937_64& random, std::size_t pieces) {
  static const std::vector<std::string> kPieces{"the ",
                                                " a",
                                                "hello",
                                                "'s",
                                                "'",
                                                "  ",
                                                "\n",
                                                "\t",
                                                " ",
                                                "1",
                                                "23",
                                                ".",
                                                "!!",
                                                "\xc3\xa9",
                                                "\xe4\xb8\xad",
                                                "\xf0\x9f\x99\x82",
                                                "\xc2\xa0",
                                                "\xe2\x80\x83",
                                                "\x80",
                                                "\xff",
                                                "\xc3",
                                                "\xe4\xb8",
                                                "\xed\xa0\x80",
                                                "\xf4\x90\x80\x80",
                                                "<|endoftext|>",
                                                "<|endoftext",
                                                "<|",
                                                "|>",
                                                std::string(1, '\0')};
  std::string text;
  while (pieces-- > 0)
    text += random() % 10 == 0 ? std::string(1, static_cast<char>(random())) : kPieces[random() % kPieces.size()];
  return text;
}

std::vector<Token> encoded_in_pieces(std::string_view text, std::size_t extra) {
  std::vector<Token> tokens;
  std::size_t done = 0;
  while (true) {
    const std::string piece(text.substr(done, Tokenizer::kMostLeft + extra));
    const bool last = done + piece.size() == text.size();
    const std::size_t covered = gpt2()->encode_bytes(piece, last, tokens);
    EXPECT_TRUE(last ? covered == piece.size() : covered >= 1 && piece.size() - covered <= Tokenizer::kMostLeft);
    done += covered;
    if (last || covered == 0) return tokens;
  }
}

TEST(VocabMerges, MatchesTheReference) {
  NEEDS_GPT2();
  std::ifstream file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/golden/bpe.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 400u);
  for (int pass = 0; pass < 2; ++pass) {  // the second pass is answered by the cache
    for (const auto& entry : cases) {
      const std::string text = entry["text"];
      EXPECT_EQ(encoded(text), entry["tokens"].get<std::vector<Token>>()) << entry.dump();
      EXPECT_EQ(gpt2()->encode(text), encoded(text));
      EXPECT_EQ(decoded(encoded(text)), text);
      if (!entry.contains("ordinary")) continue;
      const std::vector<ByteRange> whole{{0, text.size()}};
      EXPECT_EQ(gpt2()->encode_traced(text, whole).tokens, entry["ordinary"].get<std::vector<Token>>()) << entry.dump();
    }
  }
}

TEST(VocabMerges, DecodesWhatItEncodesForAnyBytes) {
  NEEDS_GPT2();
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, random() % 60);
    ASSERT_EQ(decoded(encoded(text)), text) << "seed " << seed;
  }
}

TEST(VocabMerges, PiecesGiveTheSameTokens) {
  NEEDS_GPT2();
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  for (const std::size_t extra : {0, 1, 77, 4099}) {
    const std::string text =
        random_text(random, extra < 77 ? 70'000 : 200'000).substr(0, Tokenizer::kMostLeft + (extra < 77 ? 5'000 : 400'000));
    const std::vector<Token> whole = encoded(text);
    EXPECT_EQ(encoded_in_pieces(text, extra), whole) << "seed " << seed;
    EXPECT_EQ(decoded(whole), text);
  }
}

TEST(VocabMerges, GiantWordsAreCutTheSameWay) {
  NEEDS_GPT2();
  for (const std::string unit : {"a", " ", "\n", "\xc3\xa9", "\xff", "=", "7", "\xf0\x9f\x99\x82"}) {
    std::string text;
    while (text.size() < 2 * Tokenizer::kMostWord + 1000) text += unit;
    text += "x";
    const std::vector<Token> whole = encoded(text);
    EXPECT_EQ(decoded(whole), text);
    EXPECT_EQ(encoded_in_pieces(text, 5000), whole) << unit;
  }
}

// The merges of long words go through a heap. Words around the limit get the same tokens either way.
TEST(VocabMerges, ShortAndLongWordsAgree) {
  NEEDS_GPT2();
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string word;
    while (word.size() < 64) word += "etaoinshrdlu"[random() % 12];
    // Two words without a common merge: the tokens of the joined text are those of both words. 'word' alone takes the short path.
    const std::vector<Token> expected = encoded(word);
    std::string doubled = word + "Q" + word;
    std::vector<Token> tokens = encoded(doubled);
    EXPECT_EQ(decoded(tokens), doubled);
    const auto middle = std::ranges::find_if(tokens, [](Token t) { return gpt2()->inside(t).find('Q') != std::string::npos; });
    ASSERT_NE(middle, tokens.end());
    if (gpt2()->inside(*middle) != "Q") continue;
    EXPECT_EQ(std::vector<Token>(tokens.begin(), middle), expected);
    EXPECT_EQ(std::vector<Token>(middle + 1, tokens.end()), expected);
  }
}

TEST(VocabMerges, Speed) {
  NEEDS_GPT2();
  if (!std::filesystem::exists(kShared / "tinyshakespeare.txt")) GTEST_SKIP() << "tinyshakespeare.txt is absent";
  const std::string text = read_raw(kShared / "tinyshakespeare.txt");
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Token> tokens = encoded(text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{} tokens, {:.1f} MB/s\n", tokens.size(), static_cast<double>(text.size()) / seconds / 1e6);
  EXPECT_EQ(tokens.size(), 338'025u);  // the published count of this corpus under GPT-2's vocabulary
  EXPECT_EQ(encoded_in_pieces(text, 1000), tokens);
}

TEST(VocabMerges, AreRead) {
  NEEDS_GPT2();
  EXPECT_EQ(gpt2()->size(), 50257);
  EXPECT_EQ(gpt2()->find(kEndOfText), Token{50256});
  EXPECT_EQ(gpt2()->inside(50256), kEndOfText);
  EXPECT_EQ(gpt2()->decode(std::vector<Token>{15496, 995}), "Hello world");
  EXPECT_ERROR(gpt2()->decode(std::vector<Token>{50257}), "E-DATA-TOKEN", "50257");
  EXPECT_EQ(gpt2()->hash(), "f0f54ba992ead633b96fe7757433cf19");
  // Both pairs of names are the same vocabulary.
  ScratchFolder folder;
  std::filesystem::copy_file(kShared / "gpt2/encoder.json", folder / "vocab.json");
  std::filesystem::copy_file(kShared / "gpt2/vocab.bpe", folder / "merges.txt");
  EXPECT_EQ(read_vocab_merges(folder.path()).hash, gpt2()->hash());
}

// A vocabulary of the 256 bytes and "ab".
std::string small_tokens(const std::string& more = "", int skip = -1) {
  std::string text;
  int id = 0, next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : next++;
    if (byte == skip) continue;
    text += fmt::format("{}\"\\u{:04x}\":{}", text.empty() ? "" : ",", code, id++);
  }
  return "{" + text + more + "}";
}

TEST(VocabMerges, RefusesMalformedFiles) {
  ScratchFolder folder;
  EXPECT_ERROR(read_vocab_merges(folder.path()), "E-IO-MISSING", "holds no vocabulary");
  write_raw(folder / "vocab.json", small_tokens(",\"ab\":256"));
  EXPECT_ERROR(read_vocab_merges(folder.path()), "E-IO-MISSING", "merges.txt");
  write_raw(folder / "merges.txt", "#version: 0.2\r\na b\r\n");
  Tokenizer good = Tokenizer::load(folder.path());
  EXPECT_EQ(good.size(), 257);
  EXPECT_EQ(encoded("abba", good).size(), 3u);
  EXPECT_EQ(good.find(kEndOfText), kNoToken);

  for (const auto& [text, fragment] : std::vector<std::pair<std::string, const char*>>{{"a", "line 1"},
                                                                                       {"a b\na b", "repeats"},
                                                                                       {"a b\n\xff b", "line 2"},
                                                                                       {"a  b", "line 1"},
                                                                                       {"b a", "line 1"},
                                                                                       {" ab", "line 1"},
                                                                                       {"a b c", "line 1"}}) {
    write_raw(folder / "merges.txt", text);
    EXPECT_ERROR(read_vocab_merges(folder.path()), "E-FORMAT-VOCABULARY", fragment);
  }
  write_raw(folder / "merges.txt", "a b\n");
  for (const auto& [text, fragment] :
       std::vector<std::pair<std::string, const char*>>{{"", "not JSON"},
                                                        {"{}", "byte 0"},
                                                        {"5", "number"},
                                                        {"[1]", "list"},
                                                        {"{\"a\":{\"b\":1}}", "object inside"},
                                                        {"{\"a\":\"b\"}", "text in place"},
                                                        {"{\"a\":-1}", "negative"},
                                                        {"{\"a\":1.5}", "fraction"},
                                                        {"{\"a\":65536}", "leaves gaps: the file has room for 1 tokens"},
                                                        {"{\"a\":1048576}", "passes 1048575"},
                                                        {"{\"a\":18446744073709551615}", "passes 1048575"},
                                                        {"{\"\":0}", "byte characters"},
                                                        {"{\"\xe4\xb8\xad\":0}", "byte characters"},
                                                        {small_tokens(",\"ab\":258"), "no token has the id 256"},
                                                        {small_tokens(",\"ab\":255"), "appears twice"},
                                                        {small_tokens(",\"ab\":256,\"ab\":257"), "repeats"},
                                                        {small_tokens(",\"ab\":255", 65), "byte 65"},
                                                        {small_tokens(), "line 1"}}) {
    write_raw(folder / "vocab.json", text);
    EXPECT_ERROR(read_vocab_merges(folder.path()), "E-FORMAT-VOCABULARY", fragment);
  }
}

// The 256 bytes as GPT-2 writes them, "ab", and the end of text.
class VocabMergesFolder : public testing::Test {
 protected:
  void SetUp() override {
    for (int byte = 0; byte < 256; ++byte) vocab_[in_byte_characters(std::string(1, static_cast<char>(byte)))] = byte;
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
  std::vector<AddedToken> unread() const {
    const TokenizerFile file = read_vocab_merges(folder_.path());
    return unread_tokens(folder_.path(), file.tokens, file.merges);
  }
  std::vector<AddedToken> unread(const Json& tokenizer) const {
    write_raw(folder_ / "tokenizer.json", tokenizer.dump());
    return unread();
  }

  ScratchFolder folder_;
  Json vocab_;
};

TEST_F(VocabMergesFolder, OfGpt2SaysNothingNew) {
  EXPECT_TRUE(unread().empty());
  write_raw(folder_ / "tokenizer_config.json", R"({"model_max_length": 1024, "eos_token": "<|endoftext|>",
    "added_tokens_decoder": {"257": {"content": "<|endoftext|>"}}})");
  write_raw(folder_ / "special_tokens_map.json", R"({"bos_token": {"content": "<|endoftext|>"}})");
  EXPECT_TRUE(unread(tokenizer()).empty());
  Json pairs = tokenizer();
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_TRUE(unread(pairs).empty());
}

TEST_F(VocabMergesFolder, AddedTokensAreFound) {
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

TEST_F(VocabMergesFolder, AnotherTokenizerIsRefused) {
  const auto changed = [&](const char* place, const Json& value) {
    Json json = tokenizer();
    json[Json::json_pointer(place)] = value;
    return json;
  };
  // With other parts, tokenizer.json is read in place of the two files.
  const auto takes_any_bytes = [&](const Json& json) {
    write_raw(folder_ / "tokenizer.json", json.dump());
    return Tokenizer::of_vocabulary(folder_.path()).takes_any_bytes();
  };
  EXPECT_TRUE(takes_any_bytes(tokenizer()));
  EXPECT_FALSE(takes_any_bytes(changed("/normalizer", {{"type", "NFC"}})));
  EXPECT_FALSE(takes_any_bytes(changed("/pre_tokenizer", nullptr)));
  EXPECT_FALSE(takes_any_bytes(changed("/pre_tokenizer/add_prefix_space", true)));
  EXPECT_FALSE(takes_any_bytes(changed("/added_tokens/1", {{"id", 258}, {"content", "<|x|>"}})));
  EXPECT_ERROR(takes_any_bytes(changed("/model/dropout", 0.5)), "E-TOKENIZER", "dropout");
  EXPECT_ERROR(takes_any_bytes(changed("/added_tokens/0/id", 300)), "E-TOKENIZER", "has the id 300");
  EXPECT_ERROR(unread(changed("/model/vocab/zz", 258)), "E-TOKENIZER", "\"zz\" as 258");
  EXPECT_ERROR(unread(changed("/model/vocab/ab", 257)), "E-TOKENIZER", "two tokens with the id 257");
  EXPECT_ERROR(unread(changed("/model/merges/0", "b a")), "E-TOKENIZER", "its merge 1, of 'b' and 'a'");
  EXPECT_ERROR(unread(changed("/model/merges", Json::array())), "E-TOKENIZER", "0 merges");
  Json fewer = tokenizer();
  fewer["model"]["vocab"].erase("!");
  EXPECT_ERROR(unread(fewer), "E-TOKENIZER", "lacks token 33");
  write_raw(folder_ / "tokenizer.json", "{\"model\": ");
  EXPECT_ERROR(unread(), "E-TOKENIZER", "not JSON");
  std::filesystem::remove(folder_ / "tokenizer.json");
  write_raw(folder_ / "added_tokens.json", "[]");
  EXPECT_ERROR(unread(), "E-TOKENIZER", "not a JSON object");
}

TEST(Utf8, ValidPrefix) {
  const auto valid = [](std::string_view text) { return utf8_valid_prefix(text); };
  EXPECT_EQ(valid("plain text of some length"), 25u);
  EXPECT_EQ(valid("12345678\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82"), 17u);
  EXPECT_EQ(valid("a\xc3"), 1u);
  EXPECT_EQ(valid("a\xc0\x80"), 1u);
  EXPECT_EQ(valid("a\xe0\x9f\xbf"), 1u);
  EXPECT_EQ(valid("a\xed\xa0\x80"), 1u);
  EXPECT_EQ(valid("a\xf0\x8f\xbf\xbf"), 1u);
  EXPECT_EQ(valid("a\xf4\x90\x80\x80"), 1u);
  EXPECT_EQ(valid("a\xf5"), 1u);
  EXPECT_EQ(valid("\x80"), 0u);
  EXPECT_EQ(valid("\xf4\x8f\xbf\xbf"), 4u);
}

}  // namespace
}  // namespace plimsoll
