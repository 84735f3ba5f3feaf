#include "formats/bpe.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "expect_error.h"
#include "formats/utf8.h"
#include "scratch_folder.h"

namespace plimsoll {
namespace {

const std::filesystem::path kShared = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "../shared/data";

// The published vocabulary, read once; null where it is absent.
const BpeVocabulary* gpt2() {
  static const std::unique_ptr<BpeVocabulary> vocabulary =
      std::filesystem::exists(kShared / "gpt2/encoder.json")
          ? std::make_unique<BpeVocabulary>(BpeVocabulary::load(kShared / "gpt2"))
          : nullptr;
  return vocabulary.get();
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

std::vector<Token> encode_in_pieces(BpeEncoder& encoder, std::string_view text, std::size_t extra) {
  std::vector<Token> tokens;
  std::size_t done = 0;
  while (true) {
    const std::string piece(text.substr(done, kBpeLookAhead + extra));
    const bool last = done + piece.size() == text.size();
    const std::size_t covered = encoder.encode_piece(piece, last, tokens);
    EXPECT_TRUE(last ? covered == piece.size() : covered >= 1 && piece.size() - covered <= kBpeLookAhead);
    done += covered;
    if (last || covered == 0) return tokens;
  }
}

TEST(Bpe, MatchesTheReference) {
  NEEDS_GPT2();
  std::ifstream file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/golden/bpe.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 400u);
  BpeEncoder encoder(*gpt2());
  BpeEncoder ordinary(*gpt2(), EndOfText::ordinary);
  for (int pass = 0; pass < 2; ++pass) {  // the second pass is answered by the cache
    for (const auto& entry : cases) {
      const std::string text = entry["text"];
      EXPECT_EQ(encoder.encode(text), entry["tokens"].get<std::vector<Token>>()) << entry.dump();
      EXPECT_EQ(gpt2()->decode(encoder.encode(text)), text);
      if (!entry.contains("ordinary")) continue;
      EXPECT_EQ(ordinary.encode(text), entry["ordinary"].get<std::vector<Token>>()) << entry.dump();
    }
  }
}

TEST(Bpe, DecodesWhatItEncodesForAnyBytes) {
  NEEDS_GPT2();
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  BpeEncoder encoder(*gpt2());
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, random() % 60);
    ASSERT_EQ(gpt2()->decode(encoder.encode(text)), text) << "seed " << seed;
  }
}

TEST(Bpe, PiecesGiveTheSameTokens) {
  NEEDS_GPT2();
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  BpeEncoder encoder(*gpt2());
  for (const std::size_t extra : {0, 1, 77, 4099}) {
    const std::string text =
        random_text(random, extra < 77 ? 70'000 : 200'000).substr(0, kBpeLookAhead + (extra < 77 ? 5'000 : 400'000));
    const std::vector<Token> whole = encoder.encode(text);
    EXPECT_EQ(encode_in_pieces(encoder, text, extra), whole) << "seed " << seed;
    EXPECT_EQ(gpt2()->decode(whole), text);
  }
}

TEST(Bpe, GiantWordsAreCutTheSameWay) {
  NEEDS_GPT2();
  BpeEncoder encoder(*gpt2());
  for (const std::string unit : {"a", " ", "\n", "\xc3\xa9", "\xff", "=", "7", "\xf0\x9f\x99\x82"}) {
    std::string text;
    while (text.size() < 2 * kMaxWordBytes + 1000) text += unit;
    text += "x";
    const std::vector<Token> whole = encoder.encode(text);
    EXPECT_EQ(gpt2()->decode(whole), text);
    EXPECT_EQ(encode_in_pieces(encoder, text, 5000), whole) << unit;
  }
}

// The merges of long words go through a heap; words just around the limit must not show it.
TEST(Bpe, ShortAndLongWordsAgree) {
  NEEDS_GPT2();
  std::mt19937_64 random(7);
  BpeEncoder encoder(*gpt2());
  for (int round = 0; round < 300; ++round) {
    std::string word;
    while (word.size() < 64) word += "etaoinshrdlu"[random() % 12];
    // Of two words without a common merge, the tokens of the sum are the sum of the tokens: 'word' alone takes the short path.
    const std::vector<Token> expected = encoder.encode(word);
    std::string doubled = word + "Q" + word;
    std::vector<Token> tokens = encoder.encode(doubled);
    EXPECT_EQ(gpt2()->decode(tokens), doubled);
    const auto middle =
        std::ranges::find_if(tokens, [](Token t) { return gpt2()->bytes_of(t).find('Q') != std::string_view::npos; });
    ASSERT_NE(middle, tokens.end());
    if (gpt2()->bytes_of(*middle) != "Q") continue;
    EXPECT_EQ(std::vector<Token>(tokens.begin(), middle), expected);
    EXPECT_EQ(std::vector<Token>(middle + 1, tokens.end()), expected);
  }
}

TEST(Bpe, Speed) {
  NEEDS_GPT2();
  if (!std::filesystem::exists(kShared / "tinyshakespeare.txt")) GTEST_SKIP() << "tinyshakespeare.txt is absent";
  const std::string text = read_raw(kShared / "tinyshakespeare.txt");
  BpeEncoder encoder(*gpt2());
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Token> tokens = encoder.encode(text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{} tokens, {:.1f} MB/s\n", tokens.size(), static_cast<double>(text.size()) / seconds / 1e6);
  EXPECT_EQ(tokens.size(), 338'025u);  // the published count of this corpus under GPT-2's vocabulary
  EXPECT_EQ(encode_in_pieces(encoder, text, 1000), tokens);
}

TEST(BpeVocabulary, ReadsAndSaves) {
  NEEDS_GPT2();
  EXPECT_EQ(gpt2()->size(), 50257);
  EXPECT_EQ(gpt2()->end_of_text(), Token{50256});
  EXPECT_EQ(gpt2()->decode(std::vector<std::int32_t>{15496, 995}), "Hello world");
  EXPECT_ERROR(gpt2()->decode(std::vector<std::int32_t>{50257}), "E-DATA-TOKEN", "50257");
  EXPECT_ERROR(gpt2()->decode(std::vector<std::int32_t>{-1}), "E-DATA-TOKEN", "-1");
  ScratchFolder folder;
  gpt2()->save(folder.path());
  const BpeVocabulary back = BpeVocabulary::load(folder.path());
  EXPECT_EQ(back.hash(), gpt2()->hash());
  // The same tokens as the published file, whatever the escapes.
  EXPECT_EQ(nlohmann::json::parse(read_raw(folder / "vocab.json")),
            nlohmann::json::parse(read_raw(kShared / "gpt2/encoder.json")));
  EXPECT_EQ(read_raw(folder / "merges.txt"), read_raw(kShared / "gpt2/vocab.bpe"));
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

TEST(BpeVocabulary, RefusesMalformedFiles) {
  ScratchFolder folder;
  EXPECT_ERROR(BpeVocabulary::load(folder.path()), "E-IO-MISSING", "holds no vocabulary");
  write_raw(folder / "vocab.json", small_tokens(",\"ab\":256"));
  EXPECT_ERROR(BpeVocabulary::load(folder.path()), "E-IO-MISSING", "merges.txt");
  write_raw(folder / "merges.txt", "#version: 0.2\r\na b\r\n");
  const BpeVocabulary good = BpeVocabulary::load(folder.path());
  EXPECT_EQ(good.size(), 257);
  EXPECT_EQ(BpeEncoder(good).encode("abba").size(), 3u);
  EXPECT_EQ(good.end_of_text(), std::nullopt);

  for (const auto& [text, fragment] : std::vector<std::pair<std::string, const char*>>{{"a", "line 1"},
                                                                                       {"a b\na b", "repeats"},
                                                                                       {"a b\n\xff b", "line 2"},
                                                                                       {"a  b", "line 1"},
                                                                                       {"b a", "line 1"},
                                                                                       {" ab", "line 1"},
                                                                                       {"a b c", "line 1"}}) {
    write_raw(folder / "merges.txt", text);
    EXPECT_ERROR(BpeVocabulary::load(folder.path()), "E-FORMAT-VOCABULARY", fragment);
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
    EXPECT_ERROR(BpeVocabulary::load(folder.path()), "E-FORMAT-VOCABULARY", fragment);
  }
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
