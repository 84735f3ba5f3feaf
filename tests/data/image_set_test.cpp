// Images as a set of data: unpacked once, split by content, drawn by (seed, epoch, sample), and refused where the model cannot
// take them.
#include "data/image_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/data_kinds.h"
#include "data/image_files.h"
#include "formats/expect_error.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSize = 6;

// The fields of a micro-batch.
struct Batch {
  std::int64_t rows, size, channels;
  std::vector<float> pixels;
  std::vector<std::int32_t> targets;
  std::vector<std::uint32_t> ids;

  Batch(std::int64_t rows, std::int64_t size, std::int64_t channels)
      : rows(rows),
        size(size),
        channels(channels),
        pixels(static_cast<std::size_t>(rows * size * size * channels), -7.0F),
        targets(static_cast<std::size_t>(rows), -7),
        ids(static_cast<std::size_t>(2 * rows), 7) {}

  std::vector<FieldBuffer> fields() {
    const auto view = [](auto& numbers, DType dtype, Shape shape) {
      return TensorView{reinterpret_cast<std::byte*>(numbers.data()), dtype, shape, {}};
    };
    return {{"pixels", view(pixels, DType::f32, {rows, size, size, channels})},
            {"targets", view(targets, DType::i32, {rows, 1})},
            {"sample_ids", view(ids, DType::u32, {rows, 2})}};
  }
  void fill(const SampleSource& source, const std::vector<PlacedSample>& samples) {
    std::vector<std::byte> staging(static_cast<std::size_t>(source.staging_bytes(rows)));
    source.read(samples, staging);
    source.fill(samples, staging, fields());
  }
  float at(std::int64_t row, std::int64_t y, std::int64_t x, std::int64_t c) const {
    return pixels[static_cast<std::size_t>(((row * size + y) * size + x) * channels + c)];
  }
};

class ImageSets : public testing::Test {
 protected:
  ImageSets() {
    write("images", idx_images(40, kSize));
    write("labels", idx_labels(40, 10));
  }
  void write(const std::string& name, const std::string& bytes) const { write_raw(folder / name, bytes); }
  DataRequest request() const {
    DataRequest request{.format = "idx", .train = folder / "images", .cache = folder / "cache"};
    request.images = {.labels = folder / "labels", .channels = 1, .classes = 10, .mean = {0.5}, .std = {0.25}};
    return request;
  }
  static DataFiles open(const DataRequest& request) { return data_kind(request.format).open(request); }
  static const ImageSet& images(const std::unique_ptr<DataSet>& set) { return dynamic_cast<const ImageSet&>(*set); }
  // The pixels and labels of a set, in order.
  static std::vector<std::string> records(const ImageFile& file) {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < file.images; ++i) {
      std::string record(static_cast<std::size_t>(file.record_bytes()), '\0');
      file.read(i, std::as_writable_bytes(std::span(record)));
      all.push_back(record);
    }
    return all;
  }

  ScratchFolder folder;
};

TEST_F(ImageSets, AnArrayIsUnpackedOnce) {
  const DataFiles files = open(request());
  EXPECT_EQ(files.validation, nullptr);
  const DataSet& set = *files.train;
  EXPECT_EQ(set.count({}), 40);
  EXPECT_EQ(set.classes(), 10);
  EXPECT_FALSE(set.own_lengths());
  EXPECT_EQ(set.row_shape(false), (RowShape{RowBytes(0, kSize * kSize + 2), kSize}));
  EXPECT_EQ(set.kind().words.rate, "img/s");
  const std::filesystem::path cached = images(files.train).images().file.path();
  const auto before = std::filesystem::last_write_time(cached);
  EXPECT_EQ(images(open(request()).train).images().file.path(), cached);
  EXPECT_EQ(std::filesystem::last_write_time(cached), before);
}

TEST_F(ImageSets, ADamagedFileOfTheCacheIsMadeAgain) {
  const std::filesystem::path cached = images(open(request()).train).images().file.path();
  std::string bytes = read_raw(cached);
  const std::string whole = bytes;
  bytes[300] ^= 1;
  write_raw(cached, bytes);
  EXPECT_ERROR(open_image_file(File::open(cached), "x", true), "E-DATA-FORMAT", "its seal");
  EXPECT_EQ(records(images(open(request()).train).images()).size(), 40u);
  EXPECT_EQ(read_raw(cached), whole);
  for (const std::size_t size : {std::size_t{0}, std::size_t{255}, std::size_t{256}, whole.size() - 1}) {
    write_raw(cached, whole.substr(0, size));
    SCOPED_TRACE(size);
    EXPECT_ERROR(open_image_file(File::open(cached), "x", false), "E-DATA-FORMAT", "bytes");
  }
}

TEST_F(ImageSets, TheHashIsThatOfTheContent) {
  const std::string hash = open(request()).train->content_hash();
  write("images.gz", gzipped(idx_images(40, kSize)));
  DataRequest packed = request();
  packed.train = folder / "images.gz";
  EXPECT_EQ(open(packed).train->content_hash(), hash);
  DataRequest parts = request();
  write("a", idx_images(25, kSize)), write("b", idx_images(15, kSize, 1, 25));
  write("la", idx_labels(25, 10)), write("lb", idx_labels(15, 10, 25));
  parts.train = std::vector{folder / "a", folder / "b"};
  parts.images.labels = std::vector{folder / "la", folder / "lb"};
  EXPECT_EQ(open(parts).train->content_hash(), hash) << "several files are one set";
  std::string other = idx_labels(40, 10);
  other.back() = 3;
  write("labels", other);
  EXPECT_NE(open(request()).train->content_hash(), hash);
}

TEST_F(ImageSets, PassesToAnotherProcess) {
  DataRequest one = request();
  one.images.pad_crop = 2, one.images.flip = true;
  const DataFiles files = open(one);
  const auto back = data_set_at(nlohmann::json::parse(files.train->place().dump()));
  EXPECT_EQ(images(back).rule(), images(files.train).rule());
  EXPECT_EQ(back->content_hash(), files.train->content_hash());
  EXPECT_EQ(back->name(), files.train->name());
  EXPECT_EQ(back->format(), "idx");
  const nlohmann::json place = files.train->place();
  write_raw(images(files.train).images().file.path(), "other");
  EXPECT_ERROR(data_set_at(place), "E-DATA-CHANGED", "");
}

TEST_F(ImageSets, PixelsAreNormalised) {
  const DataFiles files = open(request());
  const auto source = files.train->source({});
  Batch batch(4, kSize, 1);
  batch.fill(*source, {{{0, 7}, 0}, {{0, 2}, 1}, {{1, 39}, 2}});
  for (const auto& [row, sample] : {std::pair{0, 7}, {1, 2}, {2, 39}}) {
    for (std::int64_t at = 0; at < kSize * kSize; ++at) {
      const double value = static_cast<unsigned char>(pixel_of(sample, at));
      EXPECT_FLOAT_EQ(batch.at(row, at / kSize, at % kSize, 0), static_cast<float>((value / 255 - 0.5) / 0.25));
    }
    EXPECT_EQ(batch.targets[static_cast<std::size_t>(row)], sample % 10);
  }
  EXPECT_EQ(batch.targets[3], kIgnoredTarget);
  EXPECT_EQ(batch.ids, (std::vector<std::uint32_t>{0, 7, 0, 2, 1, 39, kAbsentSample, kAbsentSample}));
  for (std::int64_t at = 0; at < kSize * kSize; ++at) EXPECT_EQ(batch.at(3, at / kSize, at % kSize, 0), 0.0F);
}

TEST_F(ImageSets, GreyImagesFillAllChannels) {
  DataRequest grey = request();
  grey.images.channels = 3;
  grey.images.mean = {0.1, 0.2, 0.3}, grey.images.std = {0.5};
  const DataFiles files = open(grey);
  Batch batch(1, kSize, 3);
  batch.fill(*files.train->source({}), {{{0, 5}, 0}});
  const double value = static_cast<unsigned char>(pixel_of(5, 8));
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_FLOAT_EQ(batch.at(0, 1, 2, c), static_cast<float>((value / 255 - 0.1 * static_cast<double>(c + 1)) / 0.5));
  }
}

// The reference pads the image, cuts the crop from it, and mirrors it.
TEST_F(ImageSets, CropsAndFlipsFollowSeedEpochAndSample) {
  constexpr std::int64_t kPad = 2;
  DataRequest one = request();
  one.images.pad_crop = kPad, one.images.flip = true;
  const DataFiles files = open(one);
  const ImageRule& rule = images(files.train).rule();
  const auto source = files.train->source({.augments = true, .seed = 9});
  std::set<std::array<std::int64_t, 3>> seen;
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t sample = 0; sample < 40; ++sample) {
      const ImageDraw draw = draw_of(rule, 9, {epoch, sample});
      EXPECT_LE(std::abs(draw.down), kPad);
      EXPECT_LE(std::abs(draw.right), kPad);
      seen.insert({draw.down, draw.right, draw.flips ? 1 : 0});
      Batch batch(1, kSize, 1);
      batch.fill(*source, {{{epoch, sample}, 0}});
      for (std::int64_t y = 0; y < kSize; ++y) {
        for (std::int64_t x = 0; x < kSize; ++x) {
          const std::int64_t from_y = y + draw.down, from_x = (draw.flips ? kSize - 1 - x : x) + draw.right;
          const bool inside = from_y >= 0 && from_y < kSize && from_x >= 0 && from_x < kSize;
          const double value = inside ? static_cast<unsigned char>(pixel_of(sample, from_y * kSize + from_x)) : 0;
          ASSERT_FLOAT_EQ(batch.at(0, y, x, 0), static_cast<float>((value / 255 - 0.5) / 0.25)) << epoch << " " << sample;
        }
      }
    }
  }
  EXPECT_GT(seen.size(), 30u) << "of 50";
  EXPECT_NE(draw_of(rule, 9, {0, 1}), draw_of(rule, 9, {1, 1}));
  EXPECT_NE(draw_of(rule, 9, {0, 1}), draw_of(rule, 10, {0, 1}));
}

TEST_F(ImageSets, TheRowOfASampleChangesNothing) {
  DataRequest one = request();
  one.images.pad_crop = 2, one.images.flip = true;
  const DataFiles files = open(one);
  const auto source = files.train->source({.augments = true, .seed = 4});
  Batch alone(1, kSize, 1), among(4, kSize, 1);
  alone.fill(*source, {{{2, 11}, 0}});
  among.fill(*source, {{{2, 3}, 0}, {{2, 30}, 1}, {{2, 11}, 2}});
  const auto row = among.pixels.begin() + 2 * kSize * kSize;
  EXPECT_TRUE(std::equal(alone.pixels.begin(), alone.pixels.end(), row));
}

TEST_F(ImageSets, AnEvaluationSeesImagesAsTheyAre) {
  DataRequest one = request();
  one.images.pad_crop = 2, one.images.flip = true;
  const DataFiles plain = open(request()), files = open(one);
  Batch a(8, kSize, 1), b(8, kSize, 1);
  std::vector<PlacedSample> samples;
  for (std::uint32_t i = 0; i < 8; ++i) samples.push_back({{0, i}, static_cast<std::int32_t>(i)});
  a.fill(*plain.train->source({}), samples);
  b.fill(*files.train->source({.augments = false, .seed = 9}), samples);
  EXPECT_EQ(a.pixels, b.pixels);
}

TEST_F(ImageSets, DrawsAreUniform) {
  const ImageRule rule{.channels = 1, .mean = {0}, .std = {1}, .pad_crop = 1, .flip = true};
  std::map<std::array<std::int64_t, 3>, int> counts;
  constexpr int kDraws = 18000;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const ImageDraw draw = draw_of(rule, 3, {i / 1000, i % 1000});
    ++counts[{draw.down, draw.right, draw.flips ? 1 : 0}];
  }
  ASSERT_EQ(counts.size(), 18u);
  for (const auto& [draw, count] : counts) EXPECT_NEAR(count, kDraws / 18, 150) << "five standard deviations";
}

TEST_F(ImageSets, AShareIsHeldOutByThePixels) {
  // Each image twice, with different labels.
  std::string twice = idx_header({80, kSize, kSize}) + idx_images(40, kSize).substr(16) + idx_images(40, kSize).substr(16);
  write("images", twice);
  write("labels", idx_labels(80, 10));
  DataRequest one = request();
  one.held_out = 0.3;
  const DataFiles files = open(one);
  ASSERT_NE(files.validation, nullptr);
  const std::vector<std::string> train = records(images(files.train).images()), rest = records(images(files.validation).images());
  EXPECT_EQ(train.size() + rest.size(), 80u);
  EXPECT_GT(rest.size(), 8u);
  std::set<std::string> of_train, of_rest;
  for (const std::string& record : train) of_train.insert(record.substr(0, kSize * kSize));
  for (const std::string& record : rest) of_rest.insert(record.substr(0, kSize * kSize));
  EXPECT_EQ(of_train.size() + of_rest.size(), 40u) << "equal images lie on one side";
  for (const std::string& pixels : of_rest) EXPECT_FALSE(of_train.contains(pixels));
  one.held_out = 1e-9;
  EXPECT_ERROR(open(one), "E-DATA-VALIDATION", "80 are for training and 0 held out");
}

TEST_F(ImageSets, AnExtractIsReadAsItself) {
  std::filesystem::create_directory(folder / "part");
  for (const std::int64_t channels : {1, 3}) {
    write("images", idx_images(40, kSize, channels));
    DataRequest one = request();
    one.images.channels = channels;
    const DataFiles files = open(one);
    const DataExtract extract = files.train->extract(folder / "part", 5, {});
    EXPECT_EQ(extract.units, std::vector<std::int64_t>(5, 1));
    const auto value = [&](const std::string& key) { return std::ranges::find(extract.changes, key, &Change::key)->value; };
    EXPECT_EQ(value("data.format"), "idx");
    EXPECT_EQ(value("image.pad_crop"), "0");
    EXPECT_EQ(value("image.flip"), "false");
    DataRequest part = one;
    part.train = std::filesystem::path(value("data.train"));
    part.images.labels = std::filesystem::path(value("data.labels"));
    // The last one has the largest label, so that the extract has as many classes.
    std::vector<std::string> all = records(images(files.train).images());
    all[4] = all[9];
    all.resize(5);
    const DataFiles read = open(part);
    EXPECT_EQ(records(images(read.train).images()), all);
    EXPECT_EQ(read.train->classes(), files.train->classes());
  }
}

TEST_F(ImageSets, LabelsAreNamedAndFitTheModel) {
  DataRequest one = request();
  one.images.labels = {};
  EXPECT_ERROR(open(one), "E-DATA-LABELS", "no labels of");
  one.images.labels = std::vector{folder / "labels", folder / "labels"};
  EXPECT_ERROR(open(one), "E-DATA-LABELS", "data.labels has 2 file(s), and data.train 1");
  one = request();
  one.images.classes = 9;
  EXPECT_ERROR(open(one), "E-CONFIG-CLASSES", "a label is 9, and the model has 9 classes");
  EXPECT_EQ(one.images.classes = 0, 0);
  EXPECT_EQ(open(one).train->classes(), 10) << "the classes of the model are open";
  one = request();
  one.validation = folder / "images";
  EXPECT_ERROR(open(one), "E-DATA-LABELS", "data.validation_labels");
}

TEST_F(ImageSets, ImagesFitTheModel) {
  DataRequest one = request();
  one.images.size = 8;
  EXPECT_ERROR(open(one), "E-DATA-IMAGE", "its images have 6 x 6 pixels, and the model takes 8 x 8");
  write("cifar", cifar(3, false));
  one = request();
  one.format = "cifar10", one.train = folder / "cifar", one.images.labels = {};
  EXPECT_ERROR(open(one), "E-DATA-IMAGE", "its images have 3 channels, and the model has 1");
  one.images.channels = 0;
  EXPECT_ERROR(open(one), "E-CONFIG-CONFLICT", "takes no images");
  write("large", idx_images(4, 7));
  write("few", idx_labels(4, 10));
  one = request();
  one.validation = folder / "large";
  one.images.validation_labels = folder / "few";
  EXPECT_ERROR(open(one), "E-DATA-IMAGE", "7 x 7 pixels of 1 channel(s), and those of the training 6 x 6");
  one = request();
  one.train = std::vector{folder / "images", folder / "large"};
  one.images.labels = std::vector{folder / "labels", folder / "few"};
  EXPECT_ERROR(open(one), "E-DATA-IMAGE", "images of one size");
}

TEST_F(ImageSets, MissingFilesAreAssumed) {
  const DataKind& kind = data_kind("idx");
  DataRequest one = request();
  EXPECT_TRUE(kind.assume(one).empty());
  EXPECT_EQ(kind.assumed_shape(one, {}).image_size, kSize);
  one.images.labels = folder / "absent";
  const std::vector<AssumedData> labels = kind.assume(one);
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_EQ(labels[0].key, "data.labels");
  EXPECT_EQ(labels[0].as, "labels below the classes of the model");
  EXPECT_EQ(kind.assumed_shape(one, labels), (RowShape{RowBytes(0, kSize * kSize + 2), kSize})) << "the images are there";
  one.images.size = 224;
  EXPECT_ERROR(kind.assume(one), "E-DATA-IMAGE", "its images have 6 x 6 pixels, and the model takes 224 x 224");
  one.train = folder / "absent-too";
  one.images.channels = 3;
  const std::vector<AssumedData> assumed = kind.assume(one);
  ASSERT_EQ(assumed.size(), 2u);
  EXPECT_EQ(assumed[0].key, "data.train");
  EXPECT_EQ(assumed[0].as, "images of 224 x 224 pixels, 3 bytes each");
  EXPECT_EQ(kind.assumed_shape(one, assumed), (RowShape{RowBytes(0, 224 * 224 * 3 + 2), 224}));
  one.validation = folder / "images", one.images.validation_labels = folder / "labels", one.images.size = 0;
  EXPECT_EQ(kind.assumed_shape(one, kind.assume(one)).image_size, kSize) << "images for validation have the same shape";
  one = request();
  one.train = folder / "absent", one.images.labels = {};
  one.format = "cifar100";
  EXPECT_EQ(kind.assumed_shape(one, kind.assume(one)).image_size, 32);
}

TEST(DataKinds, EachFormatHasOne) {
  EXPECT_EQ(data_kind("auto").name, "tokens");
  EXPECT_EQ(data_kind("bpe").name, "tokens");
  EXPECT_EQ(data_kind("chat").name, "conversations");
  for (const char* format : {"idx", "cifar10", "cifar100"}) EXPECT_EQ(data_kind(format).name, "images");
  EXPECT_EQ(data_kind("parquet").name, "tokens") << "whose reader refuses it";
  EXPECT_EQ(samples_text(data_kind("u16"), 1, 64), "1 sample of 64 tokens");
  EXPECT_EQ(samples_text(data_kind("idx"), 12, 1), "12 images");
}

}  // namespace
}  // namespace plimsoll
