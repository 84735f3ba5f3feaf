#include "verify/saved_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/error.h"
#include "formats/safetensors.h"
#include "verify/tensors.h"
#include "weights/manifest.h"

namespace plimsoll::verification {
namespace {

constexpr std::int64_t kPiece = 1 << 18;          // elements
constexpr double kLeastOfAll = 1e-3;              // some gradients are zero but for rounding
constexpr std::string_view kInner = "plimsoll.";  // names of other tensors in a checkpoint

// The tensors of a checkpoint by their name, each in one piece or in several.
class SavedTensors {
 public:
  explicit SavedTensors(const std::filesystem::path& checkpoint) {
    Manifest manifest = read_manifest(checkpoint);
    for (const ManifestFile& file : manifest.files) files_.push_back(SafetensorsFile::open(checkpoint / file.name));
    for (Piece& piece : manifest.pieces) pieces_[piece.tensor].push_back(std::move(piece));
    if (!pieces_.empty()) return;
    for (const StoredTensor& tensor : files_.front().tensors()) {
      pieces_[tensor.name] = {{0, tensor.name, 0, tensor.shape.elements()}};
    }
  }

  const std::map<std::string, std::vector<Piece>>& pieces() const { return pieces_; }
  const StoredTensor& stored(const Piece& piece) const {
    const StoredTensor* stored = files_.at(piece.file).find(piece.tensor);
    ensure(stored != nullptr, "verify", "a checkpoint lacks one of its tensors");
    return *stored;
  }
  // `begin`: from that of the piece.
  std::vector<float> read(const Piece& piece, std::int64_t begin, std::int64_t count) const {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    std::array<std::byte, 1 << 14> staging;
    files_.at(piece.file).read_f32(stored(piece), begin, numbers, staging);
    return numbers;
  }
  // State has the name of its parameter and a suffix.
  bool is_parameter(const std::string& name) const {
    for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
      if (pieces_.contains(name.substr(0, dot))) return false;
    }
    return true;
  }

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Piece>> pieces_;
};

Sums sums_of(const SavedTensors& a, const SavedTensors& b, const std::string& name, const Piece& whole) {
  Sums sums;
  std::int64_t covered = 0;
  const auto pieces = a.pieces().find(name);
  ensure(pieces != a.pieces().end(), "verify", "runs of one model have other tensors");
  for (const Piece& piece : pieces->second) {
    for (std::int64_t at = piece.begin; at < piece.end; at += kPiece) {
      const std::int64_t count = std::min(kPiece, piece.end - at);
      const std::vector<float> of_a = a.read(piece, at - piece.begin, count), of_b = b.read(whole, at, count);
      for (std::size_t i = 0; i < of_a.size(); ++i) {
        const double difference = double{of_a[i]} - of_b[i];
        sums.difference += difference * difference;
        sums.reference += double{of_b[i]} * of_b[i];
      }
    }
    covered += piece.end - piece.begin;
  }
  ensure(covered == whole.end, "verify", "the pieces of a tensor are not the whole of it");
  return sums;
}

}  // namespace

Difference difference(const std::filesystem::path& a, const std::filesystem::path& b, std::string_view suffix) {
  const SavedTensors of_a(a), of_b(b);
  GroupSums each;
  for (const auto& [name, pieces] : of_b.pieces()) {
    if (name.starts_with(kInner) || of_b.stored(pieces.front()).dtype != DType::f32) continue;
    if (suffix.empty() ? of_b.is_parameter(name) : name.ends_with(suffix)) each[name] = sums_of(of_a, of_b, name, pieces.front());
  }
  ensure(!each.empty(), "verify", "a checkpoint without the tensors to compare");
  const Sums all = total(each);
  Difference found{.total = all.relative()};
  for (const auto& [name, sums] : each) {
    const double least = kLeastOfAll * kLeastOfAll * all.reference;
    const double off = Sums{sums.difference, std::max(sums.reference, least)}.relative();
    if (off >= found.worst) found.worst = off, found.tensor = name.substr(0, name.size() - suffix.size());
  }
  return found;
}

std::string differing_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Manifest of_a = read_manifest(a), of_b = read_manifest(b);
  if (of_a.files.size() != of_b.files.size()) return "the number of files";
  for (const ManifestFile& file : of_b.files) {
    const std::string tensor = first_difference(a / file.name, b / file.name);
    if (!tensor.empty()) return tensor + " of " + file.name;
  }
  return "";
}

}  // namespace plimsoll::verification
