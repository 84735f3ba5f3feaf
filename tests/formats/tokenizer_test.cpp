#include "formats/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "expect_error.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/pattern.h"
#include "formats/tokenizer/pre_tokenizer.h"
#include "formats/utf8.h"
#include "scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<Token>;

Json added(int id, const std::string& content, Json more = Json::object()) {
  Json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  token.update(more);
  return token;
}

// A file whose vocabulary is `texts` in order. A test sets the other parts that it needs.
Json file_of(const std::vector<std::string>& texts, Json merges = Json::array()) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < texts.size(); ++i) vocab[texts[i]] = i;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"decoder", nullptr},
          {"post_processor", nullptr},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", std::move(merges)}}}};
}

// Single characters, each a token, and a token for all others.
Json characters_file(const std::string& letters) {
  std::vector<std::string> texts{"?"};
  for (std::size_t at = 0; at < letters.size();) {
    const std::size_t begin = at;
    next_character(letters, at);
    texts.push_back(letters.substr(begin, at - begin));
  }
  Json file = file_of(texts);
  file["model"]["unk_token"] = "?";
  return file;
}

class TokenizerTest : public testing::Test {
 protected:
  Tokenizer load(const Json& file) const { return load_text(file.dump()); }
  Tokenizer load_text(const std::string& text) const {
    write_raw(folder_ / "tokenizer.json", text);
    return Tokenizer::load(folder_.path());
  }
  // The texts of the tokens of a text.
  std::vector<std::string> texts(const Json& file, std::string_view text) const {
    Tokenizer tokenizer = load(file);
    std::vector<std::string> out;
    for (const Token id : tokenizer.encode(text)) out.push_back(tokenizer.decode(Ids{id}, false));
    return out;
  }
  Ids ids(const Json& file, std::string_view text) const { return load(file).encode(text); }

  ScratchFolder folder_;
};

using Texts = std::vector<std::string>;

TEST_F(TokenizerTest, MergesByRankTheLeftmostFirst) {
  Json file = file_of({"a", "b", "aa", "ab", "aab"}, {"a a", "a b", "aa b"});
  EXPECT_EQ(texts(file, "aaa"), (Texts{"aa", "a"}));
  EXPECT_EQ(texts(file, "aaab"), (Texts{"aa", "ab"}));
  EXPECT_EQ(texts(file, "aab"), (Texts{"aab"}));
  file["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"a", "a"})});
  EXPECT_EQ(texts(file, "aab"), (Texts{"a", "ab"}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(texts(file, "aab"), (Texts{"aab"}));
}

TEST_F(TokenizerTest, ALongWordIsMergedLikeAShortOne) {
  Json file = file_of({"a", "b", "aa", "ab", "ba", "abab", "aaaa"}, {"a b", "a a", "b a", "ab ab", "aa aa"});
  Tokenizer tokenizer = load(file);
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += random() % 3 == 0 ? 'b' : 'a';
    // Merges by the definition: the best rank first, and the leftmost of equals.
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (const auto& [left, right] :
         {std::pair<std::string, std::string>{"a", "b"}, {"a", "a"}, {"b", "a"}, {"ab", "ab"}, {"aa", "aa"}}) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    Texts got;
    for (const Token id : tokenizer.encode(text)) got.push_back(tokenizer.decode(Ids{id}));
    EXPECT_EQ(got, parts) << text;
  }
}

TEST_F(TokenizerTest, AWordOfAMegabyteTakesNoTime) {
  Tokenizer tokenizer = load(file_of({"a", "aa", "aaaa", "aaaaaaaa"}, {"a a", "aa aa", "aaaa aaaa"}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), (1u << 20) / 8);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(TokenizerTest, WhatTheVocabularyLacks) {
  Json file = file_of({"a", "<unk>", "<0xC3>", "<0xA9>"});
  EXPECT_EQ(ids(file, "axya"), (Ids{0, 0}));  // without unk_token
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(ids(file, "axya"), (Ids{0, 1, 1, 0}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(ids(file, "axya"), (Ids{0, 1, 0}));
  file["model"]["byte_fallback"] = true;
  EXPECT_EQ(ids(file, "a\u00e9x"), (Ids{0, 2, 3, 1}));
  file["model"]["unk_token"] = "<none>";
  EXPECT_ERROR(ids(file, "x"), "E-TOKENIZER", "no token is '<none>'");
  file["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_ERROR(ids(file, "a"), "E-TOKENIZER", "its end_of_word_suffix is \"</w>\"");
}

TEST_F(TokenizerTest, WordPiece) {
  Json file = file_of({"[UNK]", "un", "##aff", "##able", "##a", "a", "."});
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 12},
                   {"vocab", file["model"]["vocab"]}};
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  EXPECT_EQ(ids(file, "unaffable a."), (Ids{1, 2, 3, 5, 6}));
  EXPECT_EQ(ids(file, "unaffx aaaaaaaaaaaa aaaaaaaaaaaaa"), (Ids{0, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0}));
  EXPECT_EQ(load(file).decode(Ids{1, 2, 3, 5, 6}), "unaffable a.");
  file["model"]["unk_token"] = "[X]";
  EXPECT_ERROR(load(file), "E-TOKENIZER", "its unk_token");
}

TEST_F(TokenizerTest, Normalizers) {
  const auto normal = [&](Json normalizer, const std::string& text) {
    Fragment fragment{text, true};
    Normalizer(Component(normalizer, "test")).apply(fragment);
    return fragment.text;
  };
  EXPECT_EQ(normal({{"type", "NFC"}}, "e\u0301 \u1100\u1161"), "\u00e9 \uac00");
  EXPECT_EQ(normal({{"type", "NFD"}}, "\u00e9"), "e\u0301");
  EXPECT_EQ(normal({{"type", "NFD"}}, "a\u0301\u0327"), "a\u0327\u0301");  // canonical order
  EXPECT_EQ(normal({{"type", "NFKC"}}, "\ufb01"), "fi");
  EXPECT_EQ(normal({{"type", "NFKD"}}, "\u00bd"), "1\u20442");
  EXPECT_EQ(normal({{"type", "Lowercase"}}, "\u0130\u03a3A"), "i\u0307\u03c3a");
  EXPECT_EQ(normal({{"type", "Prepend"}, {"prepend", "_"}}, ""), "");
  EXPECT_EQ(normal({{"type", "Prepend"}, {"prepend", "_"}}, "_a"), "__a");
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "-"}}, "a.b"), "a-b");
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"Regex", " +"}}}, {"content", " "}}, "a   b"), "a b");
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"Regex", "^"}}}, {"content", ">"}}, "a\nb"), ">a\n>b");
  EXPECT_EQ(normal({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "\u3000 a "), "a ");
  EXPECT_EQ(normal({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, " \u180e "), "\u180e");
  EXPECT_EQ(normal({{"type", "ByteLevel"}}, " \u00e9"), "\u0120\u00c3\u00a9");
  const Json bert = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", nullptr},
                     {"lowercase", true}};
  EXPECT_EQ(normal(bert, std::string("A\0\t\u00c9\ufffd\u4e2d", 11)), "a e \u4e2d ");
  const Json both = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}, {{"type", "Prepend"}, {"prepend", "A"}}}}};
  EXPECT_EQ(normal(both, "B"), "Ab");
  for (const char* type : {"Precompiled", "Nmt", "Unheard"}) {
    EXPECT_ERROR(normal({{"type", type}}, ""), "E-TOKENIZER", type);
  }
}

// The normal forms of tokenizers treat characters that are newer than their tables as letters.
TEST(Characters, OldTablesCount) {
  EXPECT_EQ(normalized(NormalForm::nfkc, "\u32ff"), "\u32ff");
  EXPECT_EQ(normalized(NormalForm::nfd, "a\u1abf\u0327"), "a\u1abf\u0327");
  EXPECT_FALSE(is_punctuation(0x2E52));
  EXPECT_TRUE(is_punctuation(0x2E42));
  EXPECT_FALSE(is_white_space(0x180E));
  EXPECT_TRUE(is_white_space(0x85));
  const std::string marks = [] {
    std::string text = "a";
    for (int i = 0; i < 100'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0327";
    return text;
  }();
  EXPECT_EQ(normalized(NormalForm::nfd, marks).substr(0, 5), "a\u0327\u0327");
}

TEST(Patterns, MeanWhatOnigurumaMeans) {
  const auto all = [](std::string_view pattern, std::string_view text) {
    std::vector<Match> matches;
    Pattern(pattern, "test").find_all(text, matches);
    Texts out;
    for (const Match& match : matches) out.emplace_back(text.substr(match.begin, match.end - match.begin));
    return out;
  };
  EXPECT_EQ(all(R"(\s+)", "a\u180e \u0085b"), (Texts{" \u0085"}));
  EXPECT_EQ(all(R"([^\s]+)", "a\u180e b"), (Texts{"a\u180e", "b"}));
  EXPECT_EQ(all(R"(\S)", " \u180e"), (Texts{"\u180e"}));
  EXPECT_EQ(all("(?i:'s)", "'S'\u017f's"), (Texts{"'S", "'\u017f", "'s"}));
  EXPECT_EQ(all(R"(\p{N}{1,3})", "12345"), (Texts{"123", "45"}));
  EXPECT_EQ(all(R"(\d{2}+)", "12345"), (Texts{"1234"}));  // repeated, not possessive
  EXPECT_EQ(all(R"(\d{,2}x)", "123x"), (Texts{"23x"}));
  EXPECT_EQ(all(R"(a++b|a)", "aac"), (Texts{"a", "a"}));
  EXPECT_EQ(all(R"(\h+)", "zfF0g"), (Texts{"fF0"}));
  EXPECT_EQ(all(R"(\w+)", "a\u00b2_\u0301 -"), (Texts{"a\u00b2_\u0301"}));
  EXPECT_EQ(all(R"([[:punct:]]+)", "a$.b"), (Texts{"$."}));
  EXPECT_EQ(all(R"(\p{Han}+)", "a\u4e2d\u3002"), (Texts{"\u4e2d"}));
  EXPECT_EQ(all(R"([\s-x]+)", "- xy"), (Texts{"- x"}));
  EXPECT_EQ(all(R"(.$)", "a\nb"), (Texts{"a", "b"}));
  EXPECT_EQ(all("x*", "axb"), (Texts{"", "x", ""}));
  EXPECT_EQ(all(R"(\u0041\x{42}\x43)", "ABC"), (Texts{"ABC"}));
  for (const char* pattern : {R"(\X)", R"(\1)", R"((?x)a)", R"([a&&b])", R"([a[bc]])", R"(\pL)", "a(?i)b", "(", "[a", "a)", "\\",
                              R"(\p{Foo})", R"(\xff)", R"([[:graph:]])", R"(\k<a>)", "((a{1000}){1000}){1000}"}) {
    EXPECT_ERROR(Pattern(pattern, "test"), "E-TOKENIZER", "pattern");
  }
}

TEST(Patterns, BombsEndInErrors) {
  std::vector<Match> matches;
  const std::string text = std::string(5000, 'a') + "!";
  for (const char* pattern : {"(a+)+$", "(a|aa)+$", "(a*)*b", R"((\p{L}+)*\d)"}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_ERROR(Pattern(pattern, "test").find_all(text + "b", matches), "E-TOKENIZER", "pattern takes more");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << pattern;
  }
  Pattern(R"(\s+(?!\S)|\s+)", "test").find_all(std::string(1 << 20, ' ') + "x", matches);
  EXPECT_EQ(matches.size(), 2u);
}

TEST_F(TokenizerTest, TextThatGrowsIsRefused) {
  Json file = characters_file("x");
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "xx"}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 60; ++i) file["normalizer"]["normalizers"].push_back(twice);
  EXPECT_ERROR(ids(file, "x"), "E-TOKENIZER", "are the most");
  for (int i = 0; i < 10; ++i) file["normalizer"]["normalizers"].push_back(twice);
  EXPECT_ERROR(load(file), "E-TOKENIZER", "more than 64 steps");
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", std::string(1 << 19, 'x')}};
  EXPECT_ERROR(ids(file, "xxxx"), "E-TOKENIZER", "are the most");
  file["normalizer"] = nullptr;
  Json bytes = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
  for (int i = 0; i < 60; ++i)
    bytes["pretokenizers"].push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  file["pre_tokenizer"] = bytes;
  EXPECT_ERROR(ids(file, "\u00e9"), "E-TOKENIZER", "are the most");
}

// Each text is the begin of the next one.
TEST_F(TokenizerTest, AddedTokensThatBeginAlike) {
  Json file = characters_file("ab");
  std::string text;
  for (int i = 0; i < 2000; ++i) file["added_tokens"].push_back(added(3 + i, text += i == 0 ? "aa" : "a"));
  Tokenizer tokenizer = load(file);
  const auto begin = std::chrono::steady_clock::now();
  std::string line;
  for (int i = 0; i < 3000; ++i) line += "ab";
  EXPECT_EQ(tokenizer.encode(line).size(), 6000u);
  EXPECT_EQ(tokenizer.encode(std::string(2001, 'a') + "b").size(), 2u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Splits, KeepWhatTheirBehaviorSays) {
  const auto split = [](const char* behavior, bool invert, const std::string& text) {
    const Json json = {{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}};
    const Pieces pieces = PreTokenizer(Component(json, "test")).cut({text, true});
    Texts out;
    for (const Piece& piece : pieces.pieces) out.emplace_back(pieces.of(piece));
    return out;
  };
  const std::string text = "the-final--countdown";
  EXPECT_EQ(split("Removed", false, text), (Texts{"the", "final", "countdown"}));
  EXPECT_EQ(split("Isolated", false, text), (Texts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithPrevious", false, text), (Texts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithNext", false, text), (Texts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("Contiguous", false, text), (Texts{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("Removed", true, text), (Texts{"-", "-", "-"}));
  EXPECT_ERROR(split("Sideways", false, text), "E-TOKENIZER", "Sideways");
}

TEST_F(TokenizerTest, PreTokenizers) {
  const auto cut = [](const Json& json, const std::string& text, bool at_start = true) {
    const Pieces pieces = PreTokenizer(Component(json, "test")).cut({text, at_start});
    Texts out;
    for (const Piece& piece : pieces.pieces) {
      out.push_back(pieces.bytes ? in_byte_characters(pieces.of(piece)) : std::string(pieces.of(piece)));
    }
    return out;
  };
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  EXPECT_EQ(cut(bytes, "it's  42 \u00e9"), (Texts{"it", "'s", "\u0120", "\u012042", "\u0120\u00c3\u00a9"}));
  bytes["add_prefix_space"] = true;
  bytes["use_regex"] = false;
  EXPECT_EQ(cut(bytes, "a b"), (Texts{"\u0120a\u0120b"}));
  EXPECT_EQ(cut({{"type", "Digits"}, {"individual_digits", true}}, "a12\u00bd"), (Texts{"a", "1", "2", "\u00bd"}));
  EXPECT_EQ(cut({{"type", "Digits"}, {"individual_digits", false}}, "a12b"), (Texts{"a", "12", "b"}));
  EXPECT_EQ(cut({{"type", "Whitespace"}}, "a b..c"), (Texts{"a", "b", "..", "c"}));
  EXPECT_EQ(cut({{"type", "WhitespaceSplit"}}, " a.b  c"), (Texts{"a.b", "c"}));
  EXPECT_EQ(cut({{"type", "Punctuation"}}, "a,b$"), (Texts{"a", ",", "b", "$"}));
  EXPECT_EQ(cut({{"type", "BertPreTokenizer"}}, "a, b"), (Texts{"a", ",", "b"}));
  Json mark = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}, {"split", true}};
  EXPECT_EQ(cut(mark, "a b"), (Texts{"_a", "_b"}));
  EXPECT_EQ(cut(mark, " a"), (Texts{"_a"}));
  EXPECT_EQ(cut(mark, "a b", false), (Texts{"a", "_b"}));
  mark["prepend_scheme"] = "always";
  mark["split"] = false;
  EXPECT_EQ(cut(mark, "a b", false), (Texts{"_a_b"}));
  EXPECT_ERROR(cut({{"type", "UnicodeScripts"}}, ""), "E-TOKENIZER", "UnicodeScripts");
}

TEST_F(TokenizerTest, AddedTokensComeFirst) {
  Json file = characters_file("abA <s>x");
  const int next = static_cast<int>(file["model"]["vocab"].size());
  file["added_tokens"] = {added(next, "<s>"), added(next + 1, "<s>x"), added(next + 2, "B", {{"normalized", true}}),
                          added(next + 3, "ab", {{"single_word", true}}),
                          added(next + 4, "<x>", {{"lstrip", true}, {"rstrip", true}})};
  EXPECT_EQ(texts(file, "a<s>xx<s>"), (Texts{"a", "<s>x", "x", "<s>"}));
  EXPECT_EQ(texts(file, "ab aab"), (Texts{"ab", " ", "a", "a", "b"}));
  EXPECT_EQ(texts(file, "a  <x> b"), (Texts{"a", "<x>", "b"}));
  // "B" is looked for as "b" in text that is lower case by then; "<s>" in the text as it is.
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(ids(file, "AB"), (Ids{1, Token(next + 2)}));
  EXPECT_EQ(ids(file, "<S>"), (Ids{5, 6, 7}));
}

TEST_F(TokenizerTest, TokensAroundTheText) {
  Json file = characters_file("ab");
  file["added_tokens"] = {added(3, "<s>", {{"special", true}}), added(4, "</s>", {{"special", true}})};
  const Json special = {{"<s>", {{"id", "<s>"}, {"ids", {3}}, {"tokens", {"<s>"}}}},
                        {"</s>", {{"id", "</s>"}, {"ids", {4}}, {"tokens", {"</s>"}}}}};
  file["post_processor"] = {{"type", "Sequence"},
                            {"processors",
                             {{{"type", "ByteLevel"}, {"add_prefix_space", true}},
                              {{"type", "TemplateProcessing"},
                               {"single",
                                {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                 {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                 {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
                               {"pair", Json::array()},
                               {"special_tokens", special}}}}};
  Tokenizer tokenizer = load(file);
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{3, 1, 2, 4}));
  EXPECT_EQ(tokenizer.encode("ab", SpecialTokens::leave_out), (Ids{1, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 1, 2, 4}), "a b");
  EXPECT_EQ(tokenizer.decode(Ids{3, 1, 2, 4}, false), "<s> a b </s>");
  EXPECT_ERROR(tokenizer.decode(Ids{5}), "E-DATA-TOKEN", "token 5");
  file["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 3}}, {"sep", {"</s>", 4}}};
  EXPECT_EQ(ids(file, "a"), (Ids{3, 1, 4}));
  file["post_processor"]["sep"][1] = 77;
  EXPECT_ERROR(load(file), "E-TOKENIZER", "inserts token 77");
}

TEST_F(TokenizerTest, Decoders) {
  const auto decoded = [&](const Json& decoder, const std::vector<std::string>& tokens) {
    Json file = file_of(tokens);
    file["decoder"] = decoder;
    Ids all(tokens.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Token>(i);
    return load(file).decode(all);
  };
  EXPECT_EQ(decoded({{"type", "ByteLevel"}}, {"a\u0120", "\u00c3", "\u00a9", "\u00c4"}), "a \u00e9\ufffd");
  const Json fallback = {{"type", "Sequence"},
                         {"decoders",
                          {{{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  EXPECT_EQ(decoded(fallback, {"_a", "<0xC3>", "<0xA9>", "__b"}), "a\u00e9  b");
  EXPECT_EQ(decoded(fallback, {"<0xC3>", "<0xA9>", "<0xFF>"}), "\ufffd\ufffd\ufffd");  // one for each byte
  EXPECT_EQ(decoded({{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}}, {"_a", "_b"}), "a b");
  EXPECT_ERROR(decoded({{"type", "CTC"}}, {"a"}), "E-TOKENIZER", "CTC");
  Json file = file_of({"_a", "<0xC3>", "##x"});
  file["decoder"] = fallback;
  EXPECT_EQ(load(file).inside(0), " a");
  EXPECT_EQ(load(file).inside(1), "\xc3");
}

TEST_F(TokenizerTest, HostileFilesEndInCodedErrors) {
  const Json good = file_of({"a", "b", "ab"}, {"a b"});
  const auto refused = [&](const char* place, const Json& value, const char* fragment) {
    Json file = good;
    file[Json::json_pointer(place)] = value;
    EXPECT_ERROR(load(file), "E-TOKENIZER", fragment);
  };
  refused("/model/type", "Unigram", "Unigram");
  refused("/model/vocab", Json::array(), "Unigram");
  refused("/model/dropout", 0.1, "at random");
  refused("/model/vocab/a", 1 << 20, "id 1048576");
  refused("/model/vocab/a", 1, "two tokens with the id 1");
  refused("/model/vocab/a", -1, "has no id");
  refused("/model/vocab/a", Json::array(), "a list");
  refused("/model/merges/0", "a c", "does not join");
  refused("/model/merges/0", "a b c", "no pair");
  refused("/model/merges/0", Json::array({"a"}), "no pair");
  refused("/model/merges/0", 7, "no pair");
  refused("/model/merges", "a b", "vocab or merges");
  refused("/added_tokens", Json::array({added(9, "x")}), "makes it 3");
  refused("/added_tokens", Json::array({added(1, "a")}), "makes it 0");
  refused("/added_tokens", Json::array({added(3, std::string(20'000, 'x'))}), "20000 bytes");
  refused("/added_tokens", Json::array({{{"content", "x"}}}), "no id");
  refused("/added_tokens", Json::array({7}), "no object");
  refused("/added_tokens", 7, "no list");
  refused("/normalizer", {{"type", "Precompiled"}}, "Precompiled");
  refused("/normalizer", 7, "no type");
  refused("/pre_tokenizer", {{"type", "Split"}}, "pattern");
  refused("/version", "2.0", "version");
  EXPECT_ERROR(load_text("{\"model\":" + std::string(100'000, '[') + "}"), "E-TOKENIZER", "nested too deeply");
  EXPECT_ERROR(load_text("{\"model\": \"" + std::string(2 << 20, 'x') + "\"}"), "E-TOKENIZER", "more than 1048576 bytes");
  EXPECT_ERROR(load_text("{\"model\": {\"vocab\": {\"\xff\": 1}}}"), "E-TOKENIZER", "not JSON");
  EXPECT_ERROR(load_text(""), "E-TOKENIZER", "not JSON");
  EXPECT_ERROR(load_text("[]"), "E-TOKENIZER", "no object");
  EXPECT_ERROR(load_text("7"), "E-TOKENIZER", "no object");
  EXPECT_ERROR(load(good).encode("a\xff"), "E-DATA-TEXT", "byte 1");
}

// A file with any cut or change is read or refused by name.
TEST_F(TokenizerTest, BrokenFilesAreReadOrRefused) {
  Json file = characters_file("ab _");
  file["added_tokens"] = Json::array({added(5, "<s>")});
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}}}}};
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}, {"split", true}};
  file["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"<s>", 5}}, {"sep", {"<s>", 5}}};
  file["decoder"] = {{"type", "Strip"}, {"content", "_"}, {"start", 1}, {"stop", 1}};
  const std::string text = file.dump();
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string broken = text;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % broken.size();
      switch (random() % 4) {
        case 0: broken[at] = static_cast<char>(random()); break;
        case 1: broken.erase(at, 1 + random() % 20); break;
        case 2: broken.insert(at, 1, "[]{}\",:0-9e\\"[random() % 12]); break;
        default: broken.insert(at, broken.substr(random() % broken.size(), random() % 40)); break;
      }
      if (broken.empty()) broken = "x";
    }
    try {
      Tokenizer tokenizer = load_text(broken);
      tokenizer.decode(tokenizer.encode("ab <s> a_b"), false);
      ++read;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code == "E-TOKENIZER") << error.what() << "\n" << broken;
    }
  }
  EXPECT_GT(read, 20);
}

TEST_F(TokenizerTest, OfGpt2sFiles) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[in_byte_characters(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["ab"] = 256;
  vocab["<|endoftext|>"] = 257;
  write_raw(folder_ / "vocab.json", vocab.dump());
  write_raw(folder_ / "merges.txt", "#version: 0.2\na b\n");
  Tokenizer tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.encode("ab<|endoftext|>"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\u00e9 ab")), "\u00e9 ab");
  EXPECT_TRUE(Tokenizer::of_vocabulary(folder_.path()).takes_any_bytes());
  // An equivalent tokenizer.json changes nothing. One with more parts does.
  Json file = file_of({});
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = {"a b"};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  write_raw(folder_ / "tokenizer.json", file.dump());
  EXPECT_TRUE(Tokenizer::of_vocabulary(folder_.path()).takes_any_bytes());
  file["normalizer"] = {{"type", "NFC"}};
  write_raw(folder_ / "tokenizer.json", file.dump());
  EXPECT_FALSE(Tokenizer::of_vocabulary(folder_.path()).takes_any_bytes());
}

}  // namespace
}  // namespace plimsoll
