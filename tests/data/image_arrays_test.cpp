// Published arrays of images are read as they stand, and every fault of an untrusted file has its own message.
#include "data/image_arrays.h"

#include <gtest/gtest.h>

#include <optional>

#include "data/image_files.h"
#include "formats/expect_error.h"
#include "formats/unpacked_file.h"

namespace plimsoll {
namespace {

struct Read {
  ImageShape shape;
  std::vector<std::string> images;
  std::vector<std::int64_t> labels;
};

class ImageArrays : public testing::Test {
 protected:
  Read read(const std::string& format, const std::string& images, const std::optional<std::string>& labels = {}) const {
    write_raw(folder / "images", images);
    if (labels) write_raw(folder / "labels", *labels);
    const File file = File::open(folder / "images");
    const std::optional<File> of_labels = labels ? std::optional(File::open(folder / "labels")) : std::nullopt;
    const auto array = open_image_array(format, file, of_labels ? &*of_labels : nullptr);
    Read all{array->shape(), {}, {}};
    std::string pixels(static_cast<std::size_t>(array->shape().bytes()), '\0');
    while (true) {
      const std::int64_t label = array->next(std::as_writable_bytes(std::span(pixels)));
      if (label < 0) return all;
      all.images.push_back(pixels);
      all.labels.push_back(label);
    }
  }
  // An error of the images; the labels are right.
  Read read_idx(const std::string& images) const { return read("idx", images, idx_labels(3, 10)); }

  ScratchFolder folder;
};

TEST_F(ImageArrays, IdxIsReadPlainAndPacked) {
  const std::string images = idx_images(3, 5), labels = idx_labels(3, 10);
  const std::string halves = gzipped(images.substr(0, 40)) + gzipped(images.substr(40));
  const std::string padded = halves + std::string(1 << 17, '\0');
  for (const std::string& file : {images, gzipped(images), halves, padded}) {
    for (const std::string& names : {labels, gzipped(labels)}) {
      const Read all = read("idx", file, names);
      EXPECT_EQ(all.shape, (ImageShape{5, 1}));
      EXPECT_EQ(all.labels, (std::vector<std::int64_t>{0, 1, 2}));
      ASSERT_EQ(all.images.size(), 3u);
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(all.images[static_cast<std::size_t>(i)], images.substr(static_cast<std::size_t>(16 + 25 * i), 25));
      }
    }
  }
}

TEST_F(ImageArrays, AFourthDimensionHoldsChannels) {
  const Read all = read("idx", idx_images(2, 4, 3), idx_labels(2, 10));
  EXPECT_EQ(all.shape, (ImageShape{4, 3}));
  EXPECT_EQ(all.images[1][5], pixel_of(1, 5));
}

TEST_F(ImageArrays, CifarPlanesBecomePixels) {
  for (const bool fine : {false, true}) {
    const Read all = read(fine ? "cifar100" : "cifar10", cifar(4, fine));
    EXPECT_EQ(all.shape, (ImageShape{32, 3}));
    EXPECT_EQ(all.labels, (fine ? std::vector<std::int64_t>{0, 3, 6, 9} : std::vector<std::int64_t>{0, 1, 2, 3}));
    for (const std::int64_t place : {0, 1, 33, 1023}) {
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(all.images[2][static_cast<std::size_t>(3 * place + c)], pixel_of(2, c * 1024 + place)) << place << " " << c;
      }
    }
  }
  EXPECT_EQ(read("cifar10", gzipped(cifar(4, false))).images, read("cifar10", cifar(4, false)).images);
}

TEST_F(ImageArrays, BrokenHeadersAreRefused) {
  const std::string pixels(75, 'x');
  EXPECT_ERROR(read_idx("\0\0"), "E-DATA-EMPTY", "empty");
  EXPECT_ERROR(read_idx(std::string("\0\0\x08", 3)), "E-DATA-FORMAT", "it has 3 bytes");
  EXPECT_ERROR(read_idx("\x89PNG....."), "E-DATA-FORMAT", "it begins with 89 50 4e 47");
  EXPECT_ERROR(read_idx(idx_header({3, 5, 5}, '\x0D') + pixels), "E-DATA-FORMAT", "type 0x0d");
  EXPECT_ERROR(read_idx(idx_header({75}) + pixels), "E-DATA-FORMAT", "it has 1 dimension(s)");
  EXPECT_ERROR(read_idx(idx_header({3, 5, 5, 1, 1}) + pixels), "E-DATA-FORMAT", "it has 5 dimension(s)");
  EXPECT_ERROR(read_idx(idx_header({3, 5, 5}).substr(0, 10)), "E-DATA-FORMAT", "within its header");
  EXPECT_ERROR(read_idx(idx_header({0, 5, 5})), "E-DATA-EMPTY", "no entry");
  EXPECT_ERROR(read_idx(idx_header({3, 0, 5})), "E-DATA-FORMAT", "a size of 0");
  EXPECT_ERROR(read("idx", idx_images(3, 5), idx_images(3, 5)), "E-DATA-FORMAT", "labels");
}

// No product of sizes overflows, and nothing is allocated for a claim that the file cannot hold.
TEST_F(ImageArrays, ClaimsThatNoFileHoldsAreRefused) {
  const std::int64_t most = 0xFFFFFFFF;
  EXPECT_ERROR(read_idx(idx_header({most, 1, 1})), "E-DATA-FORMAT", "4294967295 entries");
  EXPECT_ERROR(read_idx(idx_header({1, most, most})), "E-DATA-FORMAT", "a size of 4294967295");
  EXPECT_ERROR(read_idx(idx_header({most - 1, 4096, 4096})), "E-DATA-FORMAT", "its header claims");
  EXPECT_ERROR(read_idx(gzipped(idx_header({most - 1, 4096, 4096, 3}))), "E-DATA-FORMAT", "cannot hold them");
  EXPECT_ERROR(read_idx(idx_images(3, 5).substr(0, 90)), "E-DATA-FORMAT", "claims 91 bytes, and it has 90");
  EXPECT_ERROR(read_idx(idx_images(3, 5) + "x"), "E-DATA-FORMAT", "claims 91 bytes, and it has 92");
}

TEST_F(ImageArrays, CutAndLongerPackedFilesAreRefused) {
  const std::string packed = gzipped(idx_images(3, 5));
  for (const std::size_t size : {packed.size() - 1, packed.size() - 9, packed.size() / 2, std::size_t{12}}) {
    SCOPED_TRACE(size);
    EXPECT_ERROR(read_idx(packed.substr(0, size)), "E-DATA-FORMAT", "gzip");
  }
  EXPECT_ERROR(read_idx(packed + "tail"), "E-DATA-FORMAT", "broken");
  EXPECT_ERROR(read_idx(packed + std::string(100, '\0') + "tail"), "E-DATA-FORMAT", "bytes follow its packed content and zeros");
  EXPECT_ERROR(read_idx(packed + std::string(1 << 17, '\0') + packed), "E-DATA-FORMAT", "and zeros");
  EXPECT_ERROR(read_idx(gzipped(idx_images(3, 5) + "x")), "E-DATA-FORMAT", "bytes follow its last image");
  EXPECT_ERROR(read_idx(gzipped(idx_images(3, 5).substr(0, 80))), "E-DATA-FORMAT", "it ends within entry 2 of 3");
  std::string changed = packed;
  changed[changed.size() - 6] ^= 1;  // the checksum of the content
  EXPECT_ERROR(read_idx(changed), "E-DATA-FORMAT", "broken");
}

TEST_F(ImageArrays, LabelsAreCountedAndComplete) {
  const std::string images = idx_images(3, 5);
  EXPECT_ERROR(read("idx", images, idx_labels(4, 10)), "E-DATA-LABELS", "it has 4 labels");
  EXPECT_ERROR(read("idx", images, idx_labels(2, 10)), "E-DATA-LABELS", "it has 2 labels");
  EXPECT_ERROR(read("idx", images, gzipped(idx_labels(3, 10) + "x")), "E-DATA-FORMAT", "bytes follow its last label");
  EXPECT_ERROR(read("idx", images, gzipped(idx_labels(3, 10).substr(0, 10))), "E-DATA-FORMAT", "it ends within entry 2");
}

TEST_F(ImageArrays, OtherShapesAreRefused) {
  EXPECT_ERROR(read_idx(idx_header({3, 5, 4}) + std::string(60, 'x')), "E-DATA-IMAGE", "5 rows and 4 columns");
  EXPECT_ERROR(read_idx(idx_header({3, 5, 5, 2}) + std::string(150, 'x')), "E-DATA-IMAGE", "2 channels");
  EXPECT_ERROR(read_idx(idx_header({3, 5, 5, 17})), "E-DATA-FORMAT", "a size of 17");
  EXPECT_ERROR(read_idx(gzipped(idx_header({3, 5, 5, 4}) + std::string(300, 'x'))), "E-DATA-IMAGE", "4 channels");
}

TEST_F(ImageArrays, BrokenRecordsAreRefused) {
  const std::string records = cifar(4, false);
  EXPECT_ERROR(read("cifar10", records.substr(1)), "E-DATA-FORMAT", "no multiple of 3073");
  EXPECT_ERROR(read("cifar100", records), "E-DATA-FORMAT", "no multiple of 3074");
  EXPECT_ERROR(read("cifar10", gzipped(records.substr(0, 5000))), "E-DATA-FORMAT", "it ends within record 1");
  std::string wrong = records;
  wrong[2 * 3073] = 10;
  EXPECT_ERROR(read("cifar10", wrong), "E-DATA-FORMAT", "record 2 has the label 10");
  wrong = cifar(2, true);
  wrong[3074] = 20;
  EXPECT_ERROR(read("cifar100", wrong), "E-DATA-FORMAT", "record 1 has the label");
  std::string archive(6146, '\0');
  archive.replace(257, 5, "ustar");
  EXPECT_ERROR(read("cifar10", gzipped(archive)), "E-DATA-FORMAT", "archive (tar)");
}

}  // namespace
}  // namespace plimsoll
