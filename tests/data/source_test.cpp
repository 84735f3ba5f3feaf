#include "data/source.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "formats/expect_error.h"
#include "formats/tokenizer/tokenizer.h"
#include "token_files.h"

namespace plimsoll {
namespace {

const std::filesystem::path kShared = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "../shared/data";

class Source : public testing::Test {
 protected:
  TokenFile open(const std::string& name, const std::string& bytes, const std::string& format = "auto",
                 std::int64_t vocab = 50257) {
    write_raw(folder / name, bytes);
    return open_source({folder / name, format, vocab, {}, folder / "cache"});
  }
  static std::vector<std::uint32_t> tokens_of(const TokenFile& source) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(source.tokens * source.bytes_per_token));
    source.read(0, bytes);
    std::vector<std::uint32_t> tokens;
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(source.bytes_per_token)) {
      tokens.push_back(stored_token(bytes.data() + at, source.bytes_per_token));
    }
    return tokens;
  }
  ScratchFolder folder;
};

TEST_F(Source, Formats) {
  const TokenFile bytes = open("x.txt", "hello");
  EXPECT_EQ(bytes.tokens, 5);
  EXPECT_EQ(bytes.bytes_per_token, 1);
  const TokenFile raw = open("x.bin", u16_bytes({1, 2, 50000}));
  EXPECT_EQ(raw.tokens, 3);
  EXPECT_EQ(raw.bytes_per_token, 2);
  EXPECT_EQ(raw.parts[0].offset, 0);
  for (const char* name : {"y.bin", "y.txt"}) {
    const TokenFile llmc = open(name, llmc_bytes({5, 6, 7, 8}));
    EXPECT_EQ(llmc.tokens, 4);
    EXPECT_EQ(llmc.parts[0].offset, 1024);
    EXPECT_EQ(llmc.bytes_per_token, 2);
  }
  for (const char* name : {"z.bin", "z.txt"}) {
    const TokenFile wide = open(name, wide_llmc_bytes({5, 6, 128255}), "auto", 128256);
    EXPECT_EQ(wide.format, "llmc");
    EXPECT_EQ(wide.tokens, 3);
    EXPECT_EQ(wide.parts[0].offset, 1024);
    EXPECT_EQ(wide.bytes_per_token, 4);
    EXPECT_EQ(tokens_of(wide), (std::vector<std::uint32_t>{5, 6, 128255}));
  }
  EXPECT_EQ(open("x.bin", "hello", "bytes").tokens, 5);
  EXPECT_EQ(open("x.dat", u16_bytes({1, 2}), "u16").tokens, 2);
  const TokenFile wide = open("x.dat", u32_bytes({1, 151935, 3}), "u32", 151936);
  EXPECT_EQ(wide.bytes_per_token, 4);
  EXPECT_EQ(tokens_of(wide), (std::vector<std::uint32_t>{1, 151935, 3}));
}

TEST_F(Source, WidthsOfFilesThatAreNotThere) {
  const auto width = [&](const char* format, std::int64_t vocab) {
    return assume_source({folder / "none.bin", format, vocab, folder.path(), {}}).bytes_per_token;
  };
  EXPECT_EQ(width("auto", 151936), 2) << "as the name says";
  EXPECT_EQ(width("bytes", 151936), 1);
  EXPECT_EQ(width("u16", 151936), 2);
  EXPECT_EQ(width("u32", 300), 4);
  for (const char* format : {"llmc", "bpe"}) {
    EXPECT_EQ(width(format, 65536), 2) << format;
    EXPECT_EQ(width(format, 65537), 4) << format;
  }
}

TEST_F(Source, RefusesBadFiles) {
  EXPECT_ERROR(open_source({folder / "none", "auto", 256, {}, {}}), "E-DATA-MISSING", "No such file");
  EXPECT_ERROR(open_source({folder.path(), "auto", 256, {}, {}}), "E-DATA-FILES", "no data file");
  EXPECT_ERROR(open("x", ""), "E-DATA-EMPTY", "empty");
  EXPECT_ERROR(open("x", "a"), "E-DATA-SHORT", "1 token");
  EXPECT_ERROR(open("x.bin", u16_bytes({1})), "E-DATA-SHORT", "1 token");
  EXPECT_ERROR(open("x.bin", "abc"), "E-DATA-FORMAT", "3 bytes, an odd number");
  EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2, 3}, 20240520, 2)), "E-DATA-FORMAT", "version 2");
  EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2, 3}, 20240520, 1, 1)), "E-DATA-FORMAT", "claims 4 tokens");
  EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2, 3}, 20240520, 1, -1)), "E-DATA-FORMAT", "claims 2 tokens");
  EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2, 3}, 20240520, 1, -100)), "E-DATA-FORMAT", "claims -97 tokens");
  EXPECT_ERROR(open("x.bin", llmc_bytes({})), "E-DATA-SHORT", "0 token");
  for (const char* format : {"llmc", "auto"}) {
    EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2}, 20240801), format), "E-DATA-FORMAT", "magic number 20240801 and version 1");
    EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2}, 20240520, 7), format), "E-DATA-FORMAT", "magic number 20240520 and version 7");
    EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2}).substr(0, 600), format), "E-DATA-FORMAT", "the file ends after 600 bytes");
    EXPECT_ERROR(open("x.bin", wide_llmc_bytes({1, 2}, 2), format), "E-DATA-FORMAT", "claims 4 tokens of 4 bytes");
    EXPECT_ERROR(open("x.bin", wide_llmc_bytes({1, 2}, -5), format), "E-DATA-FORMAT", "claims -3 tokens of 4 bytes");
  }
  EXPECT_ERROR(open("x.bin", llmc_bytes({1, 2}, 20240522), "llmc"), "E-DATA-FORMAT", "magic number 20240522 and version 1");
  EXPECT_ERROR(open("x.bin", "ab", "llmc"), "E-DATA-FORMAT", "magic number 0 and version 0, and the file ends after 2 bytes");
  EXPECT_ERROR(open("x.bin", u16_bytes({1, 2, 3, 4, 5}), "u32"), "E-DATA-FORMAT", "10 bytes, no multiple of 4");
  EXPECT_ERROR(open("x.bin", u32_bytes({1}), "u32"), "E-DATA-SHORT", "1 token");
  EXPECT_ERROR(open("x", "hello", "byte"), "E-CONFIG-VALUE", "data.format=bytes");
  EXPECT_ERROR(open("x", "hello", "bpe"), "E-CONFIG-VALUE", "no vocabulary");
}

TEST_F(Source, HashFollowsTheTokens) {
  const std::string a = content_hash(open("a.bin", u16_bytes({1, 2, 3})));
  EXPECT_EQ(a.size(), 32u);
  EXPECT_EQ(content_hash(open("b.bin", u16_bytes({1, 2, 3}))), a);
  EXPECT_EQ(content_hash(open("c.bin", llmc_bytes({1, 2, 3}))), a) << "the same tokens behind a header";
  EXPECT_NE(content_hash(open("d.bin", u16_bytes({1, 2, 4}))), a);
  EXPECT_EQ(content_hash(open("h.bin", u32_bytes({1, 2, 3}), "u32")), content_hash(open("i.bin", wide_llmc_bytes({1, 2, 3}))));
  EXPECT_NE(content_hash(open("e.bin", u16_bytes({1, 2, 3}), "bytes")), a);
  const std::string large(1'000'001, 'x');
  EXPECT_EQ(content_hash(open("f", large)), content_hash(open("g", large)));
}

// A file of arbitrary bytes opens or is refused as data.
TEST_F(Source, SurvivesRandomHeaders) {
  const std::uint64_t seed = std::random_device{}();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = round % 2 ? llmc_bytes({1, 2, 3}) : wide_llmc_bytes({1, 2, 3});
    bytes[random() % 12] = static_cast<char>(random());
    if (random() % 2) bytes.resize(random() % (bytes.size() + 8));
    try {
      EXPECT_EQ(content_hash(open("x.bin", bytes)).size(), 32u);
    } catch (const Error& error) {
      ASSERT_EQ(error.exit, ExitCode::data) << error.what() << " seed " << seed;
    }
  }
}

std::string token_file(const TokenFile& source) { return source.parts.at(0).file.path(); }

// A list, a pattern and a folder are one stream: the one file that holds it all.
TEST_F(Source, SeveralFilesAreOneStream) {
  std::filesystem::create_directory(folder / "texts");
  write_raw(folder / "texts/b.txt", "second");
  write_raw(folder / "texts/a.txt", "first");
  write_raw(folder / "texts/.hidden", "never");
  const TokenFile whole = open("all.txt", "firstsecond");
  const std::filesystem::path a = folder / "texts/a.txt", b = folder / "texts/b.txt";
  const std::vector<DataPaths> ways{std::vector{a, b}, folder / "texts/*.txt", folder / "texts"};
  for (const DataPaths& way : ways) {
    const TokenFile several = open_source({way, "auto", 256, {}, {}});
    EXPECT_EQ(several.tokens, whole.tokens);
    EXPECT_EQ(content_hash(several), content_hash(whole));
    std::string bytes(7, ' ');
    several.read(3, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, "stsecon");
  }
  EXPECT_NE(content_hash(open_source({std::vector{b, a}, "auto", 256, {}, {}})), content_hash(whole));
  EXPECT_ERROR(open_source({std::vector{a, folder / "texts/*.md"}, "auto", 256, {}, {}}), "E-DATA-FILES", "no file matches");
  EXPECT_ERROR(open_source({folder / ".", "auto", 256, {}, {}}), "E-DATA-FILES", "it holds the folder texts");

  write_raw(folder / "x.bin", u16_bytes({1, 2, 3}));
  write_raw(folder / "y.bin", u16_bytes({4, 70, 6}));
  write_raw(folder / "z.bin", llmc_bytes({1, 2, 3, 4, 70, 6}));
  const TokenFile parts = open_source({std::vector{folder / "x.bin", folder / "y.bin"}, "auto", 70, {}, {}});
  EXPECT_EQ(content_hash(parts), content_hash(open_source({folder / "z.bin", "auto", 70, {}, {}})));
  EXPECT_ERROR(check_tokens(parts, 4, 0), "E-DATA-TOKEN", "y.bin] token 1 is 70");
  EXPECT_ERROR(open_source({std::vector{folder / "x.bin", a}, "auto", 256, {}, {}}), "E-DATA-FORMAT", "taken for bytes");

  write_raw(folder / "v.bin", wide_llmc_bytes({1, 2, 3}));
  write_raw(folder / "w.bin", wide_llmc_bytes({4, 70000, 6}));
  const TokenFile wide = open_source({std::vector{folder / "v.bin", folder / "w.bin"}, "auto", 70000, {}, {}});
  EXPECT_EQ(tokens_of(wide), (std::vector<std::uint32_t>{1, 2, 3, 4, 70000, 6}));
  EXPECT_ERROR(check_tokens(wide, 4, 0), "E-DATA-TOKEN", "w.bin] token 1 is 70000");
  EXPECT_ERROR(open_source({std::vector{folder / "v.bin", folder / "z.bin"}, "auto", 256, {}, {}}), "E-DATA-FORMAT",
               "z.bin] its tokens have 2 bytes and those of " + (folder / "v.bin").string() + " 4");
}

// Files that "auto" refuses. An explicit data.format takes them.
TEST_F(Source, RefusesWhatIsEvidentlySomethingElse) {
  const std::string jsonl = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n", zeros(200, '\0');
  std::string wide;
  for (int i = 0; i < 400; ++i) wide += u16_bytes({i * 31 % 60000 + 1, i % 2});
  std::string header = u16_bytes({20240801 & 0xffff, 20240801 >> 16, 7, 0});
  const std::tuple<const char*, std::string, const char*> table[] = {
      {"a.txt", "\x1f\x8b\x08" + zeros, "gzip"},
      {"a.txt", "PK\x03\x04" + zeros, "zip"},
      {"a.txt", "\x28\xb5\x2f\xfd" + zeros, "zstd"},
      {"a.txt", "\x93NUMPY" + zeros, "NumPy"},
      {"a.bin", "\x93NUMPY" + zeros, "NumPy"},
      {"a.npy", "text", "NumPy"},
      {"a.txt", "PAR1" + zeros, "Parquet"},
      {"a.txt", "%PDF-1.7\n", "PDF"},
      {"a.txt", "\xff\xfeh\0i\0", "UTF-16"},
      {"a.txt", std::string("h\0e\0l\0l\0o\0", 10), "zero bytes"},
      {"a.jsonl", "no json, but named so", "JSON lines"},
      {"a.txt", jsonl, "JSON lines"},
      {"a.csv", "text,label\nx,1\n", "a table"},
      {"a.txt", "\xef\xbb\xbf" + jsonl, "JSON lines"},
      {"a.txt", "[\"a\", \"one\"]\n[\"b\", \"two\"]\n", "JSON lines"},
      {"a.txt", "id,text,label\n1,\"one\",2\n2,\"two, three\",2\n3,\"four\",2\n", "a table"},
      {"a.txt", std::string("\xff\xfe\0\0h\0\0\0", 8), "UTF-32"},
      {"a.html", "words", "HTML"},
      {"a.txt", "<!DOCTYPE html>\n<p>words", "HTML"},
      {"a.bin", header + wide, "its header claims"},
      {"a.bin", wide, "tokens of four bytes"},
      {"a.bin", std::string(50, 'a') + " words in a file of tokens", "text"},
      {"a.dat", u16_bytes({8}) + std::string(6, '\0') + "{\"a\":{}}", "safetensors"},
  };
  for (const auto& [name, bytes, what] : table) {
    EXPECT_ERROR(open(name, bytes, "auto", 128256), "E-DATA-FORMAT", what);
    EXPECT_NO_THROW(open(name, bytes, "bytes")) << what;
  }
  // Text that only begins like something else, and tokens that are small or few.
  EXPECT_EQ(open("a.txt", "{ a brace opens this text\nand nothing closes it").bytes_per_token, 1);
  EXPECT_EQ(open("a.txt", "PK and BZh are letters").bytes_per_token, 1);
  EXPECT_EQ(open("a.txt", "[Verse]\nwords, and words\nmore, and more\nwords, and words\n").bytes_per_token, 1);
  EXPECT_EQ(open("a.txt", "Well, then\nwords, and words\nmore, and more\nwords, and words\n").bytes_per_token, 1);
  EXPECT_EQ(open("a.bin", u16_bytes({1, 0, 2, 0, 3, 0})).bytes_per_token, 2);
  EXPECT_EQ(open("a.bin", std::string(4000, '\0')).bytes_per_token, 2);
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  EXPECT_ERROR(open("a.txt", pointer), "E-IO-LFS", "lfs pull");

  const TokenFile bytes = open("a.txt", "some text"), tokens = open("a.bin", u16_bytes({1, 2})),
                  llmc = open("b.bin", llmc_bytes({1, 2}));
  EXPECT_ERROR(require_one_kind(tokens, bytes), "E-DATA-FORMAT", "taken for bytes");
  EXPECT_NO_THROW(require_one_kind(tokens, llmc));
  const TokenFile raw = open("c.bin", u32_bytes({1, 2}), "u32"), wide_llmc = open("d.bin", wide_llmc_bytes({1, 2}));
  for (const TokenFile* file : {&raw, &wide_llmc}) {
    EXPECT_NO_THROW(require_one_kind(tokens, *file));
    EXPECT_NO_THROW(require_one_kind(*file, llmc));
    EXPECT_ERROR(require_one_kind(*file, bytes), "E-DATA-FORMAT", "taken for bytes");
  }
}

// Each remedy names the format that reads the file.
TEST_F(Source, RawTokensOfFourBytesAreTold) {
  std::vector<int> ids;
  for (int i = 0; i < 400; ++i) ids.push_back(i * 3331 % 151936);
  for (const auto& [name, note] : {std::pair{"a.bin", ""}, {"a.dat", "if it is tokens of four bytes"}}) {
    try {
      open(name, u32_bytes(ids), "auto", 151936);
      ADD_FAILURE() << name << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.remedies.at(0), Remedy(Change("data.format", "u32"), note)) << error.what();
    }
    EXPECT_EQ(open(name, u32_bytes(ids), "u32", 151936).tokens, 400);
  }
}

// All bytes, and all pairs of them up to `tokens`: pair (a, b) is token 256 + 256 a + b.
void write_pairs(const std::filesystem::path& folder, std::size_t tokens) {
  std::vector<std::string> letters;
  for (int byte = 0, next = 256; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : next++;
    letters.push_back(code < 0x80 ? std::string(1, static_cast<char>(code))
                                  : std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))});
  }
  nlohmann::json vocabulary;
  std::string merges;
  for (std::size_t id = 0; id < tokens; ++id) {
    if (id < 256) {
      vocabulary[letters[id]] = id;
      continue;
    }
    const std::string &left = letters[(id - 256) / 256], &right = letters[id % 256];
    vocabulary[left + right] = id;
    merges += left + " " + right + "\n";
  }
  std::filesystem::create_directories(folder);
  write_raw(folder / "vocab.json", vocabulary.dump());
  write_raw(folder / "merges.txt", merges);
}

// Four bytes a token past 65,536 of them, else two; the file of a small vocabulary keeps its name.
TEST_F(Source, TextThroughALargeVocabulary) {
  write_raw(folder / "x.txt", "ab\xfe\xff\xff\xff");
  for (const std::size_t size : {300, 65536, 65537, 65792}) {
    const std::filesystem::path pairs = folder / fmt::format("pairs-{}", size);
    write_pairs(pairs, size);
    const TokenFile source = open_source({folder / "x.txt", "bpe", 151936, pairs, folder / "cache"});
    EXPECT_EQ(source.bytes_per_token, size > 65536 ? 4 : 2) << size;
    std::vector<std::uint32_t> expected{97, 98, 0xFE, 0xFF, 0xFF, 0xFF};
    if (size >= 65536) expected = {256 + 97 * 256 + 98, 256 + 0xFE * 256 + 0xFF, 0xFF, 0xFF};
    if (size == 65792) expected = {256 + 97 * 256 + 98, 256 + 0xFE * 256 + 0xFF, 256 + 0xFF * 256 + 0xFF};
    EXPECT_EQ(tokens_of(source), expected) << size;
    EXPECT_EQ(token_file(open_source({folder / "x.txt", "bpe", 151936, pairs, folder / "cache"})), token_file(source));
    Tokenizer tokenizer = Tokenizer::load(pairs);
    std::vector<Token> tokens;
    tokenizer.encode_bytes("ab\xff\xff", /*last=*/true, tokens);
    std::string text;
    for (const Token token : tokens) text += tokenizer.inside(token);
    EXPECT_EQ(text, "ab\xff\xff");
    if (size == 300)
      EXPECT_EQ(std::filesystem::path(token_file(source)).filename(), "tokens-94645b1fabae6c061df04e370ecc85ad.bin");
    if (size == 65536)
      EXPECT_EQ(std::filesystem::path(token_file(source)).filename(), "tokens-61a98016247a92ca83646e73ee2b8b34.bin");
  }
}

TEST_F(Source, TextOfAModelWithTokensOfItsOwn) {
  write_raw(folder / "x.txt", "some text");
  SourceRequest request{folder / "x.txt", "auto", 50257, {}, folder / "cache"};
  request.trained = folder.path();
  EXPECT_ERROR(open_source(request), "E-TOKENIZER", "holds no vocabulary");
  write_raw(folder / "tokenizer.json", "{}");
  EXPECT_ERROR(open_source(request), "E-TOKENIZER", "tokenizer.json alone is not read");
  request.format = "bytes";
  EXPECT_EQ(open_source(request).tokens, 9);
}

TEST_F(Source, TokenisesTextOnce) {
  if (!std::filesystem::exists(kShared / "gpt2/encoder.json"))
    GTEST_SKIP() << "the GPT-2 vocabulary is absent: " << kShared / "gpt2";
  std::string text;
  for (int i = 0; text.size() < 1'500'000; ++i)
    text += fmt::format("Line {} of the play,\n  spoken \xe2\x80\x94 twice.\n\n", i * i);
  write_raw(folder / "x.txt", text);
  const SourceRequest request{folder / "x.txt", "auto", 50304, kShared / "gpt2", folder / "cache/deep"};
  const TokenFile source = open_source(request);
  EXPECT_EQ(source.bytes_per_token, 2);
  EXPECT_EQ(source.name, (folder / "x.txt").string());
  EXPECT_EQ(tokens_of(source), Tokenizer::load(kShared / "gpt2").encode(text));

  // A second run takes the file that the first one left, and another text does not.
  const auto stamp = std::filesystem::last_write_time(token_file(source));
  EXPECT_EQ(token_file(open_source(request)), token_file(source));
  EXPECT_EQ(std::filesystem::last_write_time(token_file(source)), stamp);
  write_raw(folder / "x.txt", text + "!");
  EXPECT_NE(token_file(open_source(request)), token_file(source));

  SourceRequest small = request;
  small.vocab = 5000;
  EXPECT_ERROR(open_source(small), "E-DATA-TOKEN", "50257 tokens and the model has 5000");
  small.keeps_vocab = true;
  EXPECT_ERROR(open_source(small), "E-DATA-TOKEN", "and the model has 5000 rows");
  small.vocab = 50256;  // without <|endoftext|>, which the text lacks
  EXPECT_EQ(tokens_of(open_source(small)), tokens_of(open_source(request)));
  SourceRequest nowhere = request;
  nowhere.cache = folder / "x.txt/cache";
  EXPECT_ERROR(open_source(nowhere), "E-IO-WRITE", "cannot be written");
  SourceRequest bytes = request;
  bytes.vocab = 256;
  EXPECT_EQ(open_source(bytes).bytes_per_token, 1) << "a vocabulary of 256 is a vocabulary of bytes";
}

TEST(TokenCheck, ReadsAsFarAsTheSamplesGo) {
  const ScratchFolder folder;
  write_raw(folder / "x.bin", u16_bytes({1, 2, 3, 4, 5, 6, 7, 300, 9, 10}));
  SourceRequest request{folder / "x.bin", "u16", 256, {}, {}};
  const TokenFile source = open_source(request);
  EXPECT_ERROR(check_tokens(source, 4, 0), "E-DATA-TOKEN", "token 7 is 300");
  EXPECT_NO_THROW(check_tokens(source, 3, 2));  // tokens 0 to 6
  EXPECT_ERROR(check_tokens(source, 7, 1), "E-DATA-TOKEN", "token 7 is 300");
  request.vocab = 301;
  EXPECT_NO_THROW(check_tokens(open_source(request), 4, 0));
  request.format = "bytes";
  request.vocab = 7;
  EXPECT_ERROR(check_tokens(open_source(request), 4, 0), "E-DATA-TOKEN", "token 12 is 7");
  write_raw(folder / "x.bin", u32_bytes({1, 2, 151935, 65536, -1}));
  request = {folder / "x.bin", "u32", 151936, {}, {}};
  EXPECT_ERROR(check_tokens(open_source(request), 2, 0), "E-DATA-TOKEN", "token 4 is 4294967295");
  EXPECT_NO_THROW(check_tokens(open_source(request), 2, 1));
  request.vocab = 151935;
  EXPECT_ERROR(check_tokens(open_source(request), 2, 0), "E-DATA-TOKEN", "token 2 is 151935");
  EXPECT_EQ(token_error(open_source(request), 2, 151935).remedies.at(0), Remedy(Change("model.vocab", 151936)));
  EXPECT_NE(token_error(open_source(request), 4, 4294967295).remedies.at(0).changes.at(0).key, "model.vocab");
}

}  // namespace
}  // namespace plimsoll
