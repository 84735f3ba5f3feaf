#include "formats/gguf/gguf_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/ceil_div.h"
#include "formats/finite.h"
#include "formats/gguf/gguf_storage.h"
#include "formats/utf8.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::int64_t kBufferBytes = 64 << 10;
constexpr std::uint64_t kMostKeys = 1 << 14, kMostTensors = 1 << 16, kMostKeyBytes = 512, kMostNameBytes = 128;
constexpr std::int64_t kMostText = 4 << 20, kMostHeader = 256 << 20;

constexpr const char* kReadable = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K";

std::string shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 60)) result += c >= 32 && c < 127 ? c : '?';
  return result;
}

}  // namespace

// Reads the header front to back.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), size_(file.file_.size()) {}

  void parse() {
    if (const std::string magic = text(4); magic != kMagic) fail(fmt::format("it begins with '{}', not with GGUF", shown(magic)));
    const auto version = next<std::uint32_t>();
    if (version != 2 && version != 3) {
      const bool swapped = version == 2u << 24 || version == 3u << 24;
      fail(swapped ? "its numbers are big-endian" : fmt::format("its version is {}", version), "version 3 or 2, little-endian");
    }
    const auto tensors = next<std::uint64_t>(), keys = next<std::uint64_t>();
    check_count("tensors", tensors, kMostTensors, 8 + 1 + 4 + 8 + 4 + 8);
    check_count("keys", keys, kMostKeys, 8 + 1 + 4 + 1);
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
  }

 private:
  [[noreturn]] void fail(std::string why, std::string expected = "a complete GGUF file") const {
    throw file_.malformed(std::move(why), std::move(expected));
  }

  std::int64_t left() const { return size_ - position_; }

  void need(std::uint64_t bytes, std::string_view what) const {
    if (bytes <= static_cast<std::uint64_t>(left())) return;
    fail(fmt::format("{} at byte {} takes {} bytes, and the file has {} more", what, position_, bytes, left()));
  }

  void read_bytes(std::span<std::byte> out) {
    need(out.size(), "a part of the header");
    while (!out.empty()) {
      if (position_ < buffer_at_ || position_ >= buffer_at_ + buffered_) {
        buffer_.resize(kBufferBytes);
        buffer_at_ = position_;
        buffered_ = std::min(kBufferBytes, left());
        file_.file_.read_at(buffer_at_, std::span(buffer_).first(static_cast<std::size_t>(buffered_)));
      }
      const std::size_t begin = static_cast<std::size_t>(position_ - buffer_at_);
      const std::size_t count = std::min(out.size(), static_cast<std::size_t>(buffered_) - begin);
      std::memcpy(out.data(), buffer_.data() + begin, count);
      out = out.subspan(count);
      position_ += static_cast<std::int64_t>(count);
    }
  }

  template <class T>
  T next() {
    std::array<std::byte, sizeof(T)> raw;
    read_bytes(raw);
    return read_unaligned<T>(raw.data());
  }

  std::string text(std::uint64_t bytes) {
    std::string result(bytes, '\0');
    read_bytes(std::as_writable_bytes(std::span(result)));
    return result;
  }

  std::string short_text(const char* what, std::uint64_t most) {
    const auto bytes = next<std::uint64_t>();
    if (bytes > most)
      fail(fmt::format("the {} at byte {} has {} bytes", what, position_ - 8, bytes), fmt::format("at most {}", most));
    std::string result = text(bytes);
    if (result.empty()) fail(fmt::format("a {} at byte {} is empty", what, position_));
    return result;
  }

  void check_count(const char* what, std::uint64_t count, std::uint64_t most, std::uint64_t least_bytes) const {
    if (count > most) fail(fmt::format("it claims {} {}", count, what), fmt::format("at most {}", most));
    if (count > static_cast<std::uint64_t>(left()) / least_bytes) {
      fail(fmt::format("it claims {} {}, and has {} bytes for them", count, what, left()));
    }
  }

  GgufType type(const std::string& key) {
    const auto number = next<std::uint32_t>();
    if (number > static_cast<std::uint32_t>(GgufType::f64)) {
      fail(fmt::format("key {} has a value of type {}", shown(key), number), "one of the types 0 to 12");
    }
    return static_cast<GgufType>(number);
  }

  // Limits the size of the header: it is read from front to back, with arrays of texts element by element.
  void skip(std::uint64_t bytes, std::string_view what) {
    need(bytes, what);
    position_ += static_cast<std::int64_t>(bytes);
    if (position_ > kMostHeader) fail(fmt::format("{} ends after byte {}", what, kMostHeader), "a shorter header");
  }

  void read_key() {
    const std::string key = short_text("key", kMostKeyBytes);
    GgufValue value{.type = type(key)};
    const std::string what = "the value of " + shown(key);
    if (value.type == GgufType::array) {
      read_array(key, what, value);
    } else if (value.type == GgufType::text) {
      value.count = next<std::uint64_t>();
      value.offset = position_;
      skip(value.count, what);
    } else {
      value.offset = position_;
      skip(static_cast<std::uint64_t>(size_of(value.type)), what);
    }
    if (!file_.values_.emplace(key, value).second) fail(fmt::format("key {} appears twice", shown(key)));
  }

  void read_array(const std::string& key, const std::string& what, GgufValue& value) {
    value.element = type(key);
    value.count = next<std::uint64_t>();
    value.offset = position_;
    if (value.element == GgufType::array) fail(what + " is an array of arrays", "an array of numbers or texts");
    if (value.count == 0) fail(what + " is an array without elements", "at least one element");
    const std::uint64_t least = value.element == GgufType::text ? 8 : static_cast<std::uint64_t>(size_of(value.element));
    if (value.count > static_cast<std::uint64_t>(left()) / least) {
      fail(fmt::format("{} claims {} elements, and the file has {} more bytes", what, value.count, left()));
    }
    if (value.element != GgufType::text) return skip(value.count * least, what);
    for (std::uint64_t i = 0; i < value.count; ++i) skip(next<std::uint64_t>(), what);
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = short_text("tensor's name", kMostNameBytes);
    const std::string name = shown(tensor.name);
    const auto axes = next<std::uint32_t>();
    if (axes == 0 || axes > 4) fail(fmt::format("tensor {} has {} axes", name, axes), "one to four");
    std::array<std::int64_t, 4> extents{};
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const auto extent = next<std::uint64_t>();
      if (extent == 0 || extent >> 62 != 0) fail(fmt::format("an axis of tensor {} has {} elements", name, extent));
      extents[axis] = static_cast<std::int64_t>(extent);
    }
    for (std::uint32_t axis = axes; axis-- > 0;) tensor.shape.push_back(extents[axis]);
    set_type(tensor, next<std::uint32_t>());
    const auto offset = next<std::uint64_t>();
    if (offset > static_cast<std::uint64_t>(size_)) {
      fail(fmt::format("tensor {} begins {} bytes into the data of a file of {} bytes", name, offset, size_));
    }
    tensor.offset = static_cast<std::int64_t>(offset);
    file_.tensors_.push_back(std::move(tensor));
  }

  void set_type(GgufTensor& tensor, std::uint32_t number) const {
    const GgufStorage* type = gguf_storage(number);
    const std::string name = shown(tensor.name);
    if (type == nullptr) fail(fmt::format("tensor {} is of type {}, which is not known", name, number), kReadable);
    if (!type->dtype && !type->blocks) fail(fmt::format("tensor {} is stored as {}", name, type->name), kReadable);
    tensor.stored_as = type->name, tensor.dtype = type->dtype, tensor.blocks = type->blocks;
    const auto elements = checked_elements(tensor.shape);
    // With this limit the bytes of no format overflow.
    if (!elements || *elements >> 58 != 0)
      fail(fmt::format("tensor {} of {} has too many elements", name, to_text(tensor.shape)));
    const std::int64_t block = type->blocks ? block_elements(*type->blocks) : 1, columns = tensor.shape.last();
    if (columns % block != 0) {
      fail(fmt::format("a row of tensor {} has {} elements as {}", name, columns, type->name),
           fmt::format("a multiple of {}", block));
    }
    tensor.bytes = stored_bytes(*type, tensor.shape).n;
  }

  // Turns offsets in the data into offsets in the file.
  void place_tensors() {
    const std::int64_t alignment = file_.whole("general.alignment").value_or(32);
    if (alignment < 1 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0) {
      fail(fmt::format("general.alignment is {}", alignment), "a power of two");
    }
    const std::int64_t data = round_up(position_, alignment);
    std::vector<GgufTensor>& tensors = file_.tensors_;
    for (GgufTensor& tensor : tensors) {
      if (tensor.offset % alignment != 0) {
        fail(fmt::format("tensor {} begins at byte {} of the data", shown(tensor.name), tensor.offset),
             fmt::format("a multiple of {}", alignment));
      }
      tensor.offset += data;
      if (tensor.bytes > size_ - tensor.offset) {
        fail(fmt::format("tensor {} takes {} bytes from byte {}, and the file has {}", shown(tensor.name), tensor.bytes,
                         tensor.offset, size_));
      }
    }
    std::vector<std::uint32_t>& order = file_.by_name_;
    order.resize(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return tensors[i].offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const GgufTensor &before = tensors[order[i - 1]], &tensor = tensors[order[i]];
      if (tensor.offset < before.offset + before.bytes) {
        fail(fmt::format("tensors {} and {} overlap at byte {}", shown(before.name), shown(tensor.name), tensor.offset));
      }
    }
    const auto name_of = [&](std::uint32_t i) -> const std::string& { return tensors[i].name; };
    std::ranges::sort(order, {}, name_of);
    const auto twice = std::ranges::adjacent_find(order, {}, name_of);
    if (twice != order.end()) fail(fmt::format("tensor {} appears twice", shown(name_of(*twice))));
  }

  GgufFile& file_;
  std::int64_t size_ = 0, position_ = 0, buffer_at_ = 0, buffered_ = 0;
  std::vector<std::byte> buffer_;
};

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile result;
  result.file_ = File::open(path);
  GgufParser(result).parse();
  return result;
}

Error GgufFile::malformed(std::string why, std::string expected) const {
  return data_error("E-FORMAT-GGUF", path(), std::move(why), std::move(expected));
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found != by_name_.end() && name_of(*found) == name ? &tensors_[*found] : nullptr;
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string_view> GgufFile::keys_under(std::string_view prefix) const {
  std::vector<std::string_view> keys;
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) {
    keys.push_back(at->first);
  }
  return keys;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return {};
  if (found->type != GgufType::text) throw malformed(fmt::format("{} is of type {}", key, name(found->type)), "a string");
  if (found->count > static_cast<std::uint64_t>(kMostText)) {
    throw malformed(fmt::format("{} has {} bytes", key, found->count), fmt::format("at most {}", kMostText));
  }
  std::string result(found->count, '\0');
  file_.read_at(found->offset, std::as_writable_bytes(std::span(result)));
  if (utf8_valid_prefix(result) != result.size()) throw malformed(fmt::format("{} is not UTF-8", key), "a string in UTF-8");
  return result;
}

std::array<std::byte, 8> GgufFile::raw_number(const GgufValue& value) const {
  std::array<std::byte, 8> raw{};
  file_.read_at(value.offset, std::span(raw).first(static_cast<std::size_t>(size_of(value.type))));
  return raw;
}

std::optional<std::int64_t> GgufFile::whole(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return {};
  if (const auto number = whole_number(found->type, raw_number(*found).data())) return number;
  throw malformed(fmt::format("{} is of type {}", key, name(found->type)), "a whole number below 2^63");
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return {};
  const std::array<std::byte, 8> raw = raw_number(*found);
  if (found->type == GgufType::f64) return read_unaligned<double>(raw.data());
  if (found->type == GgufType::f32) return std::stod(fmt::format("{}", read_unaligned<float>(raw.data())));
  if (const auto number = whole_number(found->type, raw.data())) return static_cast<double>(*number);
  throw malformed(fmt::format("{} is of type {}", key, name(found->type)), "a number");
}

std::optional<bool> GgufFile::flag(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return {};
  if (found->type != GgufType::flag) throw malformed(fmt::format("{} is of type {}", key, name(found->type)), "a bool");
  const std::byte raw = raw_number(*found)[0];
  if (raw > std::byte{1}) throw malformed(fmt::format("{} is the byte {}", key, static_cast<int>(raw)), "0 or 1");
  return raw == std::byte{1};
}

std::optional<std::vector<std::int64_t>> GgufFile::wholes(std::string_view key, std::size_t most) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return {};
  if (found->type != GgufType::array) return std::vector{*whole(key)};
  if (found->count > most) throw malformed(fmt::format("{} has {} elements", key, found->count), fmt::format("at most {}", most));
  std::vector<std::int64_t> result;
  GgufValue element{.type = found->element, .offset = found->offset};
  for (std::uint64_t i = 0; i < found->count; ++i, element.offset += size_of(element.type)) {
    const auto number = whole_number(element.type, raw_number(element).data());
    if (!number) throw malformed(fmt::format("{} has elements of type {}", key, name(found->element)), "whole numbers");
    result.push_back(*number);
  }
  return result;
}

void GgufFile::read_f32(const GgufTensor& tensor, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const {
  const std::int64_t elements = tensor.shape.elements();
  ensure(begin >= 0 && begin + std::ssize(out) <= elements, "GgufFile::read_f32", "the range is not within the tensor");
  if (tensor.dtype == DType::f32) {
    return read_finite(path(), tensor.name, tensor.shape, begin, out,
                       [&](std::int64_t at, std::span<std::byte> piece) { file_.read_at(tensor.offset + at, piece); });
  }
  const std::int64_t block = tensor.blocks ? block_elements(*tensor.blocks) : 1;
  const std::int64_t block_bytes = tensor.blocks ? stored_bytes({*tensor.blocks, 1, block}).n : 2;
  const std::int64_t most = std::ssize(staging) / block_bytes;
  ensure(most > 0, "GgufFile::read_f32", "the staging buffer is smaller than one block");
  while (!out.empty()) {
    const std::int64_t first = begin / block, skipped = begin % block;
    const std::int64_t blocks = std::min(most, ceil_div(skipped + std::ssize(out), block));
    const std::span<std::byte> bytes = staging.first(static_cast<std::size_t>(blocks * block_bytes));
    file_.read_at(tensor.offset + first * block_bytes, bytes);
    const std::span<float> part =
        out.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), blocks * block - skipped)));
    if (tensor.blocks) {
      decode_blocks({*tensor.blocks, 1, blocks * block}, bytes.data(), skipped, part);
    } else {
      widen(*tensor.dtype, bytes.data(), part);
    }
    require_finite(path(), tensor.name, tensor.shape, begin, part);
    out = out.subspan(part.size());
    begin += std::ssize(part);
  }
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return false;
  if (path.extension() == ".gguf") return true;
  if (!std::filesystem::is_regular_file(path, ignored) || std::filesystem::file_size(path, ignored) < kMagic.size()) return false;
  try {
    std::array<char, kMagic.size()> begin{};
    File::open(path).read_at(0, std::as_writable_bytes(std::span(begin)));
    return std::string_view(begin.data(), begin.size()) == kMagic;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace plimsoll
