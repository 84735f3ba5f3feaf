// A token file passes as text from one process to another.
#include "data/token_place.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/token_files.h"
#include "formats/expect_error.h"

namespace plimsoll {
namespace {

class TokenPlace : public testing::Test {
 protected:
  TokenPlace() {
    write_raw(folder / "a.bin", u16_bytes(counting(50)));
    write_raw(folder / "b.bin", u16_bytes(counting(70)));
    file = open_source({std::vector{folder / "a.bin", folder / "b.bin"}, "u16", 65536, {}, {}});
  }
  TokenFile passed() const { return token_file_from(nlohmann::json::parse(to_json(file).dump())); }
  static std::vector<std::byte> bytes_of(const TokenFile& tokens) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tokens.tokens * tokens.bytes_per_token));
    tokens.read(0, bytes);
    return bytes;
  }

  ScratchFolder folder;
  TokenFile file;
};

TEST_F(TokenPlace, ComesBackWithTheSameTokens) {
  const TokenFile back = passed();
  EXPECT_EQ(back.tokens, 120);
  EXPECT_EQ(bytes_of(back), bytes_of(file));
  ASSERT_EQ(back.parts.size(), file.parts.size());
  for (std::size_t i = 0; i < back.parts.size(); ++i) {
    EXPECT_EQ(back.parts[i].name, file.parts[i].name);
    EXPECT_EQ(back.parts[i].offset, file.parts[i].offset);
    EXPECT_EQ(back.parts[i].tokens, file.parts[i].tokens);
    EXPECT_EQ(back.parts[i].stamp, file.parts[i].stamp);
  }
}

TEST_F(TokenPlace, ComesBackWithAllItsFacts) {
  file.name = "two files";
  file.format = "samples";
  file.vocab = 1234;
  file.samples = 11;
  file.table = 96;
  file.keeps_vocab = true;
  file.counts = {.read = 1, .untrained = 2, .dropped = 3, .cut = 4, .split = 5, .unended = 6, .own_begins = 7, .own_ends = 8};
  file.counts.doubled = 9;
  file.counts.not_utf8 = 10;
  file.notes = {"one", "another"};
  const TokenFile back = passed();
  EXPECT_EQ(back.name, file.name);
  EXPECT_EQ(back.format, file.format);
  EXPECT_EQ(back.bytes_per_token, 2);
  EXPECT_EQ(back.vocab, file.vocab);
  EXPECT_EQ(back.samples, file.samples);
  EXPECT_EQ(back.table, file.table);
  EXPECT_EQ(back.keeps_vocab, file.keeps_vocab);
  EXPECT_EQ(back.counts, file.counts);
  EXPECT_EQ(back.notes, file.notes);
}

TEST_F(TokenPlace, AChangedFileIsRefused) {
  const nlohmann::json place = to_json(file);
  write_raw(folder / "b.bin", u16_bytes(counting(71)));
  EXPECT_ERROR(token_file_from(place), "E-DATA-CHANGED", "b.bin");
  std::filesystem::remove(folder / "b.bin");
  EXPECT_ERROR(token_file_from(place), "E-DATA-MISSING", "b.bin");
}

TEST_F(TokenPlace, APathThatJsonCannotHoldIsRefused) {
  file.parts.front().name += "\xff";
  EXPECT_ERROR(to_json(file), "E-DATA-PATH", "not UTF-8");
}

TEST_F(TokenPlace, CountsHaveTheNamesOfReports) {
  const nlohmann::json counts = to_json(SampleCounts{.read = 5, .cut = 2});
  EXPECT_EQ(counts.at("samples"), 5);
  EXPECT_EQ(counts.at("cut"), 2);
  EXPECT_EQ(counts.size(), kSampleCounts.size());
}

}  // namespace
}  // namespace plimsoll
