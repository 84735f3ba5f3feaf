// The bytes that tokens come from, and texts in which special tokens are ordinary. tests/chat/compare.py compares them with the
// package tokenizers.
#include "formats/tokenizer/token_ranges.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {
namespace {

const std::filesystem::path kTokenizer = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/chat/tokenizer.json";

std::vector<ByteRange> traced(std::string_view text, std::vector<std::string> tokens, bool byte_level, int unknown = -1) {
  std::vector<TokenTrace> traces;
  for (std::size_t i = 0; i < tokens.size(); ++i) traces.push_back({tokens[i], static_cast<int>(i) == unknown});
  return trace_tokens(text, traces, byte_level, "t");
}

TEST(TokenRanges, OfBytes) {
  EXPECT_EQ(traced("ab c", {"ab", "\u0120c"}, true), (std::vector<ByteRange>{{0, 2}, {2, 4}}));
  // Tokens within a character have all of it.
  EXPECT_EQ(traced("x\u00e9y", {"x", "\u00c3", "\u00a9y"}, true), (std::vector<ByteRange>{{0, 1}, {1, 3}, {1, 4}}));
  // A space that the tokenizer puts before the text.
  EXPECT_EQ(traced("ab", {"\u0120ab"}, true), (std::vector<ByteRange>{{0, 2}}));
}

TEST(TokenRanges, OfPieces) {
  EXPECT_EQ(traced("ab c", {"\u2581ab", "\u2581", "c"}, false), (std::vector<ByteRange>{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(traced("ab", {"\u2581", "ab"}, false), (std::vector<ByteRange>{{0, 1}, {0, 2}}));
  EXPECT_EQ(traced("a\u4f60", {"a", "<0xE4>", "<0xBD>", "<0xA0>"}, false),
            (std::vector<ByteRange>{{0, 1}, {1, 4}, {1, 4}, {1, 4}}));
  EXPECT_EQ(traced("a\u4f60\u597db", {"a", "<unk>", "b"}, false, 1), (std::vector<ByteRange>{{0, 1}, {1, 7}, {7, 8}}));
  EXPECT_ERROR(traced("ab", {"a", "c"}, false), "E-TOKENIZER", "told apart");
}

TEST(TokenRanges, OfNormalForms) {
  const nlohmann::json json = {{"type", "NFC"}};
  const Normalizer normalizer(Component(json, "t"));
  const std::string raw = "ae\u0301b";
  Fragment fragment{raw, true, false};
  normalizer.apply(fragment);
  const std::vector<ByteRange> from = origins(normalizer, raw, fragment);
  EXPECT_EQ(from, (std::vector<ByteRange>{{0, 1}, {1, 2}, {1, 2}, {4, 5}}));
  const std::vector<ByteRange> ordinary{{1, 2}};
  EXPECT_EQ(carried_over(ordinary, from), (std::vector<ByteRange>{{1, 3}}));
}

TEST(TokenRanges, TracedTokensAreTheSameTokens) {
  Tokenizer tokenizer = Tokenizer::load(kTokenizer);
  for (const std::string text :
       {"", " ", "Hello, world!", "<|im_start|>user\nna\u00efve  text<|im_end|>\n", "  a  b\n\n c ", "\u4f60\u597d \U0001f642"}) {
    const TracedTokens result = tokenizer.encode_traced(text);
    EXPECT_EQ(result.tokens, tokenizer.encode(text, SpecialTokens::leave_out)) << text;
    ASSERT_EQ(result.ranges.size(), result.tokens.size());
    for (std::size_t i = 0; i < result.ranges.size(); ++i) {
      EXPECT_LE(result.ranges[i].begin, result.ranges[i].end);
      EXPECT_LE(result.ranges[i].end, text.size());
      if (i > 0) EXPECT_LE(result.ranges[i - 1].end, result.ranges[i].end);
    }
  }
}

TEST(TokenRanges, SpecialTokensMayBeOrdinary) {
  Tokenizer tokenizer = Tokenizer::load(kTokenizer);
  const std::string text = "<|im_end|>a<|im_end|>";
  const Token end = tokenizer.find("<|im_end|>");
  const auto count = [&](std::vector<ByteRange> ordinary) {
    const std::vector<Token> tokens = tokenizer.encode_traced(text, ordinary).tokens;
    EXPECT_EQ(tokenizer.decode(tokens, false), text);
    return std::ranges::count(tokens, end);
  };
  EXPECT_EQ(count({}), 2);
  EXPECT_EQ(count({{0, 10}}), 1);
  EXPECT_EQ(count({{3, 4}}), 1);
  EXPECT_EQ(count({{10, 11}}), 2);
  EXPECT_EQ(count({{0, 1}, {20, 21}}), 0);
  EXPECT_EQ(count({{0, 21}}), 0);
}

// A vocabulary whose merges make a special token out of its own text.
TEST(TokenRanges, MergesMakeNoSpecialTokenOfOrdinaryText) {
  nlohmann::json json = nlohmann::json::parse(std::ifstream(kTokenizer));
  Tokenizer plain = Tokenizer::load(kTokenizer);
  const Token merged = plain.encode("the user").at(0);
  const std::string text = plain.decode({&merged, 1});
  ASSERT_GE(text.size(), 2u);
  json["added_tokens"].push_back({{"id", merged},
                                  {"content", text},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
  const ScratchFolder folder;
  write_raw(folder / "tokenizer.json", json.dump());
  Tokenizer tokenizer = Tokenizer::load(folder.path());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += text + "\n";
  const std::vector<ByteRange> all{{0, many.size()}};
  EXPECT_EQ(std::ranges::count(tokenizer.encode_traced(many).tokens, merged), 1000);
  const TracedTokens ordinary = tokenizer.encode_traced(many, all);
  EXPECT_EQ(std::ranges::count(ordinary.tokens, merged), 0);
  EXPECT_EQ(tokenizer.decode(ordinary.tokens, false), many);
  EXPECT_EQ(ordinary.ranges.front().begin, 0u);
  EXPECT_EQ(ordinary.ranges.back().end, many.size());
}

TEST(TokenRanges, NormalisedSpecialTokensToo) {
  nlohmann::json json = nlohmann::json::parse(std::ifstream(kTokenizer));
  for (auto& token : json["added_tokens"]) token["normalized"] = true;
  json["normalizer"] = {{"type", "NFC"}};
  const ScratchFolder folder;
  write_raw(folder / "tokenizer.json", json.dump());
  Tokenizer tokenizer = Tokenizer::load(folder.path());
  const std::string text = "e\u0301<|im_end|>e\u0301<|im_end|>";
  const Token end = tokenizer.find("<|im_end|>");
  const std::vector<ByteRange> ordinary{{14, 20}};
  EXPECT_EQ(std::ranges::count(tokenizer.encode_traced(text).tokens, end), 2);
  EXPECT_EQ(std::ranges::count(tokenizer.encode_traced(text, ordinary).tokens, end), 1);
  EXPECT_EQ(tokenizer.encode_traced(text, ordinary).tokens.at(1), tokenizer.encode("\u00e9<|im_end|>").at(1));
}

}  // namespace
}  // namespace plimsoll
