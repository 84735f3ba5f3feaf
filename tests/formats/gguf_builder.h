// Makes GGUF files for tests, whole and broken ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::int64_t alignment = 32;
  // Differences of the counts in the header from the real ones.
  std::uint64_t more_keys = 0, more_tensors = 0;

  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof(value), '\0');
    std::memcpy(bytes.data(), &value, sizeof(value));
    return bytes;
  }
  static std::string text(std::string_view value) { return raw<std::uint64_t>(value.size()) + std::string(value); }

  void key(std::string_view name, std::uint32_t type, const std::string& value) {
    keys_.push_back(text(name) + raw(type) + value);
  }
  void u32(std::string_view name, std::uint32_t value) { key(name, 4, raw(value)); }
  void f32(std::string_view name, float value) { key(name, 6, raw(value)); }
  void flag(std::string_view name, bool value) { key(name, 7, raw(static_cast<std::uint8_t>(value))); }
  void string(std::string_view name, std::string_view value) { key(name, 8, text(value)); }
  void strings(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += text(value);
    key(name, 9, bytes);
  }
  template <class T>
  void numbers(std::string_view name, std::uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw(type) + raw<std::uint64_t>(values.size());
    for (const T value : values) bytes += raw(value);
    key(name, 9, bytes);
  }

  // `shape`: outermost axis first.
  void tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::string bytes) {
    while (data_.size() % static_cast<std::size_t>(alignment) != 0) data_ += '\0';
    tensor_at(name, shape, type, data_.size());
    data_ += bytes;
  }
  void tensor_at(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::uint64_t offset) {
    std::string info = text(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t axis = shape.size(); axis-- > 0;) info += raw(shape[axis]);
    tensors_.push_back(info + raw(type) + raw(offset));
  }
  void floats(std::string_view name, const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += raw(value);
    tensor(name, shape, 0, bytes);
  }

  std::string file() const {
    std::string bytes =
        "GGUF" + raw(version) + raw<std::uint64_t>(tensors_.size() + more_tensors) + raw<std::uint64_t>(keys_.size() + more_keys);
    for (const std::string& key : keys_) bytes += key;
    for (const std::string& tensor : tensors_) bytes += tensor;
    while (bytes.size() % static_cast<std::size_t>(alignment) != 0) bytes += '\0';
    return bytes + data_;
  }

 private:
  std::vector<std::string> keys_, tensors_;
  std::string data_;
};

}  // namespace plimsoll
