#include "data/token_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/text_bytes.h"
#include "formats/expect_error.h"
#include "formats/file_stamp.h"
#include "formats/kept_json.h"
#include "formats/own_folder.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

void write_raw(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_raw(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Utf8Count count_in_pieces(const std::string& text, std::size_t piece) {
  Utf8Meter meter;
  for (std::size_t at = 0; at < text.size(); at += piece)
    meter.add(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
  return meter.finish();
}

TEST(TokenCache, IsBoundToItsNameAndContent) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "tokens-a.bin", other = folder / "tokens-b.bin";
  const std::vector<std::uint16_t> tokens{1, 2, 3, 500};
  SampleCounts counts;
  counts.own_begins = 3;
  TokenCacheWriter writer(path, 2);
  writer.write(std::as_bytes(std::span(tokens)));
  writer.commit(counts);
  const auto open = [](const std::filesystem::path& file, std::int64_t width) {
    return open_token_cache(File::open(file), width);
  };
  const TokenCacheFile read = open(path, 2);
  EXPECT_EQ(read.counts, counts);
  EXPECT_EQ(read.file.size(), read.offset + 8);
  EXPECT_ERROR(open(path, 4), "E-DATA-FORMAT", "does not begin like");
  const std::string whole = read_raw(path);
  write_raw(other, whole);
  EXPECT_ERROR(open(other, 2), "E-DATA-FORMAT", "another file");
  for (const std::size_t size : {std::size_t{0}, std::size_t{255}, std::size_t{256}, whole.size() - 1, whole.size() - 2}) {
    write_raw(path, whole.substr(0, size));
    SCOPED_TRACE(size);
    EXPECT_ERROR(open(path, 2), "E-DATA-FORMAT", "");
  }
  // One bit of the header, the counts or the tokens.
  for (const std::size_t at : {std::size_t{20}, std::size_t{40}, std::size_t{96}, std::size_t{257}}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    write_raw(path, flipped);
    SCOPED_TRACE(at);
    EXPECT_ERROR(open(path, 2), "E-DATA-FORMAT", "");
  }
}

TEST(TextBytes, CountsWhatIsNoCharacterInPiecesOfAnySize) {
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xa2z";
  const std::string mixed = text + "\xff" + "ab\xe2\x82" + text + "\xe9t\xe9" + text + "\xf0\x9f\x9a";
  for (const std::size_t piece : {1, 2, 3, 4, 5, 7, 100}) {
    EXPECT_EQ(count_in_pieces(text, piece).invalid, 0) << piece;
    EXPECT_EQ(count_in_pieces(mixed, piece).invalid, count_in_pieces(mixed, mixed.size()).invalid) << piece;
    EXPECT_EQ(count_in_pieces(mixed, piece).bytes, std::ssize(mixed));
  }
  EXPECT_EQ(count_in_pieces(mixed, 1).invalid, 1 + 2 + 2 + 3);
}

TEST(FileStamp, TellsWhatWasWrittenSince) {
  const ScratchFolder folder;
  write_raw(folder / "x", "abc");
  const File file = File::open(folder / "x");
  const FileStamp stamp = stamp_of(file);
  require_unchanged(file, stamp);
  std::filesystem::last_write_time(folder / "x", std::filesystem::last_write_time(folder / "x") + std::chrono::seconds(1));
  EXPECT_ERROR(require_unchanged(file, stamp), "E-DATA-CHANGED", "has been written to");
  write_raw(folder / "x", "abcd");
  EXPECT_ERROR(require_unchanged(file, stamp), "E-DATA-CHANGED", "had 3 bytes and has 4");
  write_raw(folder / "y", "abc");
  EXPECT_ERROR(require_unchanged(File::open(folder / "y"), stamp), "E-DATA-CHANGED", "another file");
}

TEST(OwnFiles, OthersMayNotWriteThem) {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  write_raw(folder / "x", "abc");
  EXPECT_TRUE(open_own_file(folder / "x"));
  EXPECT_FALSE(open_own_file(folder / "absent"));
  EXPECT_FALSE(open_own_file(folder.path()));
  fs::create_symlink(folder / "x", folder / "link");
  EXPECT_FALSE(open_own_file(folder / "link"));
  fs::permissions(folder / "x", fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(open_own_file(folder / "x"));
  ASSERT_TRUE(make_own_folder(folder / "deep/own"));
  fs::permissions(folder / "deep/own", fs::perms::others_write, fs::perm_options::add);
  EXPECT_TRUE(is_own_folder(folder / "deep/own"));
  EXPECT_EQ(fs::status(folder / "deep/own").permissions() & fs::perms::others_write, fs::perms::none);
}

TEST(KeptJson, IsBoundToItsNameAndContent) {
  const ScratchFolder folder;
  keep_json(folder / "a.json", {{"rate", 5}});
  EXPECT_EQ(kept_json(folder / "a.json", 4096).value(), nlohmann::json({{"rate", 5}}));
  EXPECT_FALSE(kept_json(folder / "a.json", 4));
  std::string text = read_raw(folder / "a.json");
  write_raw(folder / "b.json", text);
  EXPECT_FALSE(kept_json(folder / "b.json", 4096));
  text[text.find('5')] = '6';
  write_raw(folder / "a.json", text);
  EXPECT_FALSE(kept_json(folder / "a.json", 4096));
}

}  // namespace
}  // namespace plimsoll
