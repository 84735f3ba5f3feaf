#include "weights/pieces.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/temporary_folder.h"

namespace plimsoll {
namespace {

// Ten numbers of the tensor "t", as pieces in two files.
class Pieces : public testing::Test {
 protected:
  Pieces() {
    write("a", 0, 4);
    write("b", 4, 10);
  }

  void write(const std::string& name, int begin, int end) {
    const std::filesystem::path path = folder_.path() / name;
    std::vector<float> numbers(static_cast<std::size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), static_cast<float>(begin));
    SafetensorsWriter writer(path, {{"t", DType::f32, Shape{end - begin}}}, Checksums::each);
    writer.append("t", std::as_bytes(std::span(numbers)));
    writer.commit();
    pieces_.push_back({files_.size(), "t", begin, end});
    files_.push_back(SafetensorsFile::open(path));
  }

  std::vector<float> read(std::int64_t begin, std::int64_t end) {
    compared_ = 0;
    PieceReader reader(files_, pieces_, DType::f32, begin, end,
                       [&](const SafetensorsFile& file, const StoredTensor& tensor, const Hasher& read) {
                         EXPECT_EQ(file.checksum(tensor), read.hex());
                         ++compared_;
                       });
    std::vector<float> numbers(static_cast<std::size_t>(end - begin));
    for (float& number : numbers) reader.read(std::as_writable_bytes(std::span(&number, 1)));
    reader.finish();
    return numbers;
  }

  TemporaryFolder folder_{testing::TempDir()};
  std::vector<SafetensorsFile> files_;
  std::vector<Piece> pieces_;
  int compared_ = 0;
};

TEST_F(Pieces, GiveAnyRange) {
  for (std::int64_t begin = 0; begin < 10; ++begin) {
    for (std::int64_t end = begin + 1; end <= 10; ++end) {
      std::vector<float> want(static_cast<std::size_t>(end - begin));
      std::iota(want.begin(), want.end(), static_cast<float>(begin));
      EXPECT_EQ(read(begin, end), want);
      EXPECT_EQ(compared_, (begin < 4 ? 1 : 0) + (end > 4 ? 1 : 0)) << begin << " " << end;
    }
  }
}

TEST_F(Pieces, ThatAreNotWholeAreRefused) {
  EXPECT_ERROR(read(0, 11), "E-CKPT-FORMAT", "not complete");
  pieces_[1].begin = 5;  // it has another size now
  EXPECT_ERROR(read(0, 10), "E-CKPT-FORMAT", "another type");
  pieces_.pop_back();
  write("c", 5, 10);
  EXPECT_ERROR(read(0, 10), "E-CKPT-FORMAT", "lacks or repeats");
}

}  // namespace
}  // namespace plimsoll
