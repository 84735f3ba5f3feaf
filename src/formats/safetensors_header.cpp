#include "formats/safetensors_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "formats/json_stream.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxRank = Shape::kMostAxes;
constexpr std::size_t kMostShown = 80, kMostMetadataText = 4096, kMostMetadata = 1 << 20;
// The longest text that is read whole: the checksums of kMaxTensors tensors.
constexpr std::size_t kLongestText = kChecksumDigits * (1 + kMaxTensors);

struct StoredType {
  std::string_view word;
  std::int64_t bytes;
  std::optional<DType> dtype;
};

constexpr std::array<StoredType, 15> kStoredTypes{{{"F32", 4, DType::f32},
                                                   {"F16", 2, DType::f16},
                                                   {"BF16", 2, DType::bf16},
                                                   {"I32", 4, DType::i32},
                                                   {"I64", 8, DType::i64},
                                                   {"U8", 1, DType::u8},
                                                   {"U16", 2, DType::u16},
                                                   {"U32", 4, DType::u32},
                                                   {"BOOL", 1, {}},
                                                   {"I8", 1, {}},
                                                   {"I16", 2, {}},
                                                   {"U64", 8, {}},
                                                   {"F64", 8, DType::f64},
                                                   {"F8_E4M3", 1, {}},
                                                   {"F8_E5M2", 1, {}}}};

const StoredType* stored_type(std::string_view word) {
  const auto* found = std::ranges::find(kStoredTypes, word, &StoredType::word);
  return found == kStoredTypes.end() ? nullptr : found;
}

// Receives the events of the JSON parser. A return value of false stops the parser; `problem` then has the reason.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Entry {
    std::string name;
    std::optional<std::string> dtype;
    std::optional<std::vector<std::int64_t>> shape;
    std::optional<std::vector<std::int64_t>> offsets;
  };
  using Add = std::function<void(Entry&)>;
  // add(entry) is called for each tensor; it may throw.
  explicit HeaderEvents(Add add) : add_(std::move(add)) {}

  std::map<std::string, std::string> metadata;
  std::string checksums;
  std::string problem;

  bool start_object(std::size_t) override {
    if (depth_ == 0) return depth_ = 1, true;
    if (depth_ != 1) return refuse("an object where none is allowed");
    depth_ = 2;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    if (!entry_.dtype || !entry_.shape || !entry_.offsets) return refuse("dtype, shape or data_offsets is missing");
    add_(entry_);
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) return open_entry(text);
    if (in_metadata_) {
      metadata_key_ = text.substr(0, kMostMetadataText);
      return !metadata.contains(metadata_key_) ||
             refuse(fmt::format("the metadata key '{}' appears twice", text.substr(0, kMostShown)));
    }
    field_ = text;
    if (text == "dtype") return !entry_.dtype || refuse("dtype appears twice");
    if (text == "shape") return !entry_.shape || refuse("shape appears twice");
    if (text == "data_offsets") return !entry_.offsets || refuse("data_offsets appears twice");
    return refuse(fmt::format("unknown key '{}'", text.substr(0, kMostShown)));
  }
  bool string(std::string& text) override {
    if (depth_ != 2) return refuse("text where none is allowed");
    if (in_metadata_) return keep_metadata(text);
    if (field_ != "dtype") return refuse(fmt::format("{} is a text", field_));
    if (stored_type(text) == nullptr) return refuse(fmt::format("it has the unknown dtype '{}'", text.substr(0, kMostShown)));
    entry_.dtype = text;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") return refuse("a list where none is allowed");
    depth_ = 3;
    list().emplace();
    return true;
  }
  bool end_array() override {
    depth_ = 2;
    return field_ != "data_offsets" || list()->size() == 2 || refuse("data_offsets does not have two numbers");
  }
  bool number_unsigned(std::uint64_t number) override {
    if (depth_ != 3) return refuse("a number where none is allowed");
    if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return refuse(fmt::format("{} passes 2^63 - 1", number));
    if (list()->size() == kMaxRank) return refuse(fmt::format("more than {} axes", kMaxRank));
    list()->push_back(static_cast<std::int64_t>(number));
    return true;
  }
  bool number_integer(std::int64_t number) override { return refuse(fmt::format("the negative number {}", number)); }
  bool number_float(double, const std::string& text) override { return refuse(fmt::format("{} is not a whole number", text)); }
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse(fmt::format("it is not JSON at byte {} of the header", position));
  }

 private:
  bool open_entry(const std::string& text) {
    in_metadata_ = text == "__metadata__";
    if (in_metadata_) return !std::exchange(seen_metadata_, true) || refuse("__metadata__ appears twice");
    if (text.size() > kMaxNameBytes) return refuse(fmt::format("a name of {} bytes", text.size()));
    if (++count_ > kMaxTensors) return refuse(fmt::format("more than {} tensors", kMaxTensors));
    entry_ = {text, {}, {}, {}};
    return true;
  }
  bool keep_metadata(const std::string& text) {
    if (metadata_key_ == kChecksumKey) checksums = text;
    const std::string_view kept = std::string_view(text).substr(0, kMostMetadataText);
    metadata_bytes_ += metadata_key_.size() + kept.size();
    if (metadata_bytes_ <= kMostMetadata) metadata.emplace(metadata_key_, kept);
    return true;
  }
  std::optional<std::vector<std::int64_t>>& list() { return field_ == "shape" ? entry_.shape : entry_.offsets; }
  bool refuse(std::string why) {
    const bool named = depth_ >= 1 && !in_metadata_ && count_ > 0;
    if (problem.empty()) problem = named ? fmt::format("tensor '{}': {}", entry_.name, why) : std::move(why);
    return false;
  }

  Add add_;
  Entry entry_;
  std::size_t count_ = 0, metadata_bytes_ = 0;
  int depth_ = 0;  // 1: the table, 2: one entry, 3: a list inside an entry
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  std::string field_;
  std::string metadata_key_;
};

// The tensor of one entry, with its offset from the begin of the data. `data_bytes`: the bytes after the header.
StoredTensor checked_tensor(HeaderEvents::Entry& entry, std::int64_t data_bytes, const auto& refuse) {
  const StoredType* type = stored_type(*entry.dtype);
  StoredTensor tensor{std::move(entry.name), std::move(*entry.dtype), type->dtype, Shape(*entry.shape), 0, 0};
  const auto elements = checked_elements(tensor.shape);
  if (!elements || __builtin_mul_overflow(*elements, type->bytes, &tensor.bytes)) {
    throw refuse(fmt::format("tensor '{}' {} has more bytes than a number can hold", tensor.name, to_text(tensor.shape)));
  }
  const std::int64_t begin = (*entry.offsets)[0];
  const std::int64_t end = (*entry.offsets)[1];
  if (begin > end || end > data_bytes) {
    throw refuse(fmt::format("tensor '{}' lies at [{}, {}) of {} data bytes", tensor.name, begin, end, data_bytes));
  }
  if (end - begin != tensor.bytes) {
    throw refuse(fmt::format("tensor '{}' {} of {} needs {} bytes and its offsets span {}", tensor.name, to_text(tensor.shape),
                             tensor.stored_as, tensor.bytes, end - begin));
  }
  tensor.offset = begin;
  return tensor;
}

void check_coverage(const std::vector<StoredTensor>& tensors, std::int64_t data_bytes, const auto& refuse) {
  std::int64_t covered = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != covered) {
      throw refuse(fmt::format("tensor '{}' starts at data byte {} and the one before it ends at {}", tensor.name, tensor.offset,
                               covered));
    }
    covered += tensor.bytes;
  }
  if (covered != data_bytes) throw refuse(fmt::format("the tensors cover {} of {} data bytes", covered, data_bytes));
}

// The length of the header, from the first eight bytes.
std::int64_t header_length(const File& file, const auto& refuse) {
  std::array<unsigned char, kLengthBytes> raw{};
  if (file.size() < std::ssize(raw)) {
    throw refuse(fmt::format("it has {} bytes; the header's length alone takes {}", file.size(), raw.size()));
  }
  file.read_at(0, std::as_writable_bytes(std::span(raw)));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < raw.size(); ++i) length |= std::uint64_t{raw[i]} << (8 * i);
  const auto limit = static_cast<std::uint64_t>(std::min(kMaxHeaderBytes, file.size() - std::ssize(raw)));
  if (length > limit) throw refuse(fmt::format("the header claims {} bytes; at most {} are possible", length, limit));
  return static_cast<std::int64_t>(length);
}

// The checksum of the header in [begin, end). The first occurrence of its own digits counts as zeros.
std::string checksum_in_file(const File& file, std::int64_t begin, std::int64_t end, const std::string& own) {
  constexpr std::int64_t kBlock = 64 << 10;
  Hasher hasher;
  const auto size = static_cast<std::uint64_t>(end - begin);  // hash_hex() begins with the size, too
  hasher.add(std::as_bytes(std::span(&size, 1)));
  std::string text;  // bytes that are not hashed yet: the end of the last block, where the digits may begin, and the next block
  bool found = false;
  for (std::int64_t at = begin; at < end || !text.empty();) {
    const std::size_t kept = text.size();
    text.resize(kept + static_cast<std::size_t>(std::min(kBlock, end - at)));
    file.read_at(at, std::as_writable_bytes(std::span(text).subspan(kept)));
    at += std::ssize(text) - static_cast<std::int64_t>(kept);
    if (const std::size_t place = found ? std::string::npos : text.find(own); place != std::string::npos) {
      text.replace(place, own.size(), own.size(), '0');
      found = true;
    }
    const std::size_t ready = found || at == end ? text.size() : text.size() - std::min(text.size(), own.size() - 1);
    hasher.add(std::as_bytes(std::span(text)).first(ready));
    text.erase(0, ready);
  }
  return hasher.hex();
}

}  // namespace

SafetensorsHeader read_safetensors_header(const File& file) {
  const auto refuse = [&](std::string why) {
    return data_error("E-FORMAT-SAFETENSORS", file.path(), std::move(why), "a complete safetensors file");
  };
  const std::int64_t begin = kLengthBytes, end = begin + header_length(file, refuse);
  char first = 0;
  if (end > begin) file.read_at(begin, std::as_writable_bytes(std::span(&first, 1)));
  if (first != '{') throw refuse("the header does not start with '{'");

  SafetensorsHeader header;
  HeaderEvents events(
      [&](HeaderEvents::Entry& entry) { header.tensors.push_back(checked_tensor(entry, file.size() - end, refuse)); });
  JsonStream::Options options{.longest = kLongestText, .shortens = true};
  options.refuse = [&](const std::string& why) { return refuse("the header: " + why); };
  JsonStream buffer(file, begin, end, std::move(options));
  std::istream stream(&buffer);
  if (!nlohmann::json::sax_parse(stream, &events)) throw refuse("header: " + events.problem);
  header.metadata = std::move(events.metadata);
  // Tensors without elements have the offset of the next tensor, so the end is the second key.
  std::ranges::stable_sort(header.tensors, {}, [](const StoredTensor& t) { return std::pair(t.offset, t.offset + t.bytes); });
  check_coverage(header.tensors, file.size() - end, refuse);
  for (StoredTensor& tensor : header.tensors) tensor.offset += end;
  if (events.checksums.empty()) return header;

  header.checksums = std::move(events.checksums);
  if (header.checksums.size() != kChecksumDigits * (1 + header.tensors.size())) {
    throw refuse(
        fmt::format("its header has {} digits of checksums for {} tensors", header.checksums.size(), header.tensors.size()));
  }
  const std::string own = header.checksums.substr(0, kChecksumDigits), is = checksum_in_file(file, begin, end, own);
  if (is != own) throw refuse(fmt::format("its header has the checksum {} and names {}", is, own));
  return header;
}

std::string make_safetensors_header(const std::vector<TensorSpec>& tensors, Checksums checksums) {
  std::string text = R"({"__metadata__":{"format":"pt")";
  if (checksums == Checksums::each) {
    text += fmt::format(R"(,"{}":"{}")", kChecksumKey, std::string(kChecksumDigits * (1 + tensors.size()), '0'));
  }
  text += '}';
  std::int64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const auto type = std::ranges::find(kStoredTypes, std::optional(tensor.dtype), &StoredType::dtype);
    const std::int64_t end = offset + dense_bytes(tensor.shape, tensor.dtype);
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", nlohmann::json(tensor.name).dump(),
                        type->word, nlohmann::json(std::vector(tensor.shape.begin(), tensor.shape.end())).dump(), offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

std::string header_checksum(std::string text, std::size_t at) {
  text.replace(at, kChecksumDigits, kChecksumDigits, '0');
  return hash_hex(text);
}

}  // namespace plimsoll
