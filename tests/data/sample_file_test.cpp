#include "data/sample_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>

#include "data/window.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

struct Sample {
  std::vector<Token> tokens;
  std::vector<std::uint8_t> trained;
};

// Buffers of a micro-batch, filled with a value that no source produces.
struct Fields {
  std::int64_t rows, row;
  bool packs;
  std::vector<std::int32_t> tokens, targets, segments, positions;
  std::vector<std::uint32_t> ids;

  Fields(std::int64_t rows, std::int64_t row, bool packs) : rows(rows), row(row), packs(packs) {
    const auto all = static_cast<std::size_t>(rows * row);
    for (auto* each : {&tokens, &targets, &segments, &positions}) each->assign(all, -77);
    ids.assign(packs ? 3 * all : static_cast<std::size_t>(2 * rows), 77);
  }
  std::vector<FieldBuffer> buffers() {
    const auto view = [](auto& items, DType dtype) {
      return TensorView{reinterpret_cast<std::byte*>(items.data()), dtype, Shape{std::ssize(items)}, {}};
    };
    std::vector<FieldBuffer> list{
        {"tokens", view(tokens, DType::i32)}, {"targets", view(targets, DType::i32)}, {"sample_ids", view(ids, DType::u32)}};
    if (!packs) return list;
    list.push_back({"segments", view(segments, DType::i32)});
    list.push_back({"positions", view(positions, DType::i32)});
    return list;
  }
};

class SampleFile : public testing::Test {
 protected:
  TokenFile write(const std::vector<Sample>& samples, std::int64_t vocab = 1000) {
    SampleFileWriter writer(path);
    for (const Sample& each : samples) writer.add(each.tokens, each.trained);
    writer.commit();
    return open_sample_file(File::open(path), "chats", vocab, /*verify=*/true);
  }
  static Fields filled(const StoredSamples& source, const std::vector<PlacedSample>& placed, Fields fields) {
    std::vector<std::byte> staging(static_cast<std::size_t>(source.staging_bytes(fields.rows)));
    source.read(placed, staging);
    source.fill(placed, staging, fields.buffers());
    return fields;
  }

  ScratchFolder folder;
  std::filesystem::path path = folder / "chats.samples";
  std::vector<Sample> samples{{{1, 2, 3, 4}, {0, 0, 1, 1}}, {{5, 6}, {1, 1}}, {{7, 8, 9}, {0, 0, 1}}};
};

TEST_F(SampleFile, OneSampleARow) {
  const TokenFile file = write(samples);
  EXPECT_EQ(file.samples, 3);
  EXPECT_EQ(file.tokens, 9);
  const StoredSamples source(file, 5, /*packs=*/false);
  EXPECT_EQ(source.size(0).positions, 3);
  EXPECT_EQ(source.size(0).units, 2);
  EXPECT_EQ(source.size(1).units, 1) << "a first token is no target";
  const Fields fields = filled(source, {{{4, 2}, 0, 0}, {{4, 0}, 2, 0}}, Fields(3, 5, false));
  EXPECT_EQ(fields.tokens, (std::vector<std::int32_t>{7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(fields.targets, (std::vector<std::int32_t>{-1, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, 3, 4, -1, -1}));
  EXPECT_EQ(fields.ids, (std::vector<std::uint32_t>{4, 2, kAbsentSample, kAbsentSample, 4, 0}));
}

TEST_F(SampleFile, PackedRows) {
  const TokenFile file = write(samples);
  const StoredSamples source(file, 5, /*packs=*/true);
  const Fields fields = filled(source, {{{0, 0}, 0, 0}, {{0, 1}, 0, 3}, {{1, 2}, 1, 0}}, Fields(3, 5, true));
  EXPECT_EQ(fields.tokens, (std::vector<std::int32_t>{1, 2, 3, 5, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fields.targets, (std::vector<std::int32_t>{-1, 3, 4, 6, -1, -1, 9, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(fields.segments, (std::vector<std::int32_t>{0, 0, 0, 1, 2, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fields.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto id = [&](std::size_t at) {
    return std::vector(fields.ids.begin() + static_cast<long>(3 * at), fields.ids.begin() + static_cast<long>(3 * at + 3));
  };
  EXPECT_EQ(id(2), (std::vector<std::uint32_t>{0, 0, 2}));
  EXPECT_EQ(id(3), (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_EQ(id(6), (std::vector<std::uint32_t>{1, 2, 1}));
  EXPECT_EQ(id(4), (std::vector<std::uint32_t>{kAbsentSample, kAbsentSample, 0}));
}

// An epoch has each (sample, position, target) once, with any micro-batch and packing.
TEST_F(SampleFile, EveryTargetOnceAnEpoch) {
  std::mt19937 random(5);
  std::vector<Sample> many(157);
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>> all;
  for (std::size_t s = 0; s < many.size(); ++s) {
    const std::size_t length = 2 + random() % 15;
    for (std::size_t i = 0; i < length; ++i) {
      many[s].tokens.push_back(static_cast<Token>(random() % 1000));
      many[s].trained.push_back(i + 1 == length || random() % 2 == 0 ? 1 : 0);
      if (i > 0 && many[s].trained[i] != 0) all.emplace_back(s, i - 1, static_cast<std::int32_t>(many[s].tokens[i]));
    }
  }
  std::ranges::sort(all);
  const TokenFile file = write(many);
  for (const std::int64_t rows : {1, 2, 5, 200}) {
    const StoredSamples source(file, 16, /*packs=*/true);
    const SampleOrder order{OrderKind::shuffled, 3, source.count()};
    WindowBatches batches(source, order, {.samples = 40, .span = source.count(), .row = 16, .packs = true}, rows, 0);
    batches.seek(0);
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>> seen;
    for (std::int64_t samples = 0; samples < source.count();) {
      const auto placed = batches.next();
      samples += std::ssize(placed);
      const Fields fields = filled(source, {placed.begin(), placed.end()}, Fields(rows, 16, true));
      for (std::size_t i = 0; i < fields.targets.size(); ++i) {
        if (fields.targets[i] >= 0) seen.emplace_back(fields.ids[3 * i + 1], fields.ids[3 * i + 2], fields.targets[i]);
      }
    }
    std::ranges::sort(seen);
    EXPECT_EQ(seen, all) << rows << " rows";
  }
}

TEST_F(SampleFile, RefusesWhatIsBroken) {
  write(samples);
  const auto size = std::filesystem::file_size(path);
  const auto open = [&] { return open_sample_file(File::open(path), "chats", 1000, true); };
  for (const std::uintmax_t cut : {std::uintmax_t{0}, std::uintmax_t{40}, size - 1, size - 16}) {
    write(samples);
    std::filesystem::resize_file(path, cut);
    EXPECT_ERROR(open(), "E-DATA-FORMAT", "bytes");
  }
  for (const std::streamoff at : {0, 20, 30, 100, 260}) {  // of the header, and of tokens
    write(samples);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x41);
    file.seekp(at);
    file.put(byte);
    file.close();
    EXPECT_ERROR(open(), "E-DATA-FORMAT", "chats.samples");
  }
  EXPECT_ERROR(write(samples, 9), "E-DATA-TOKEN", "a token is 9");
  const TokenFile file = write(samples);
  EXPECT_ERROR(StoredSamples(file, 2, false).size(0), "E-DATA-LONG", "takes 3 positions, and a row has 2");
}

}  // namespace
}  // namespace plimsoll
