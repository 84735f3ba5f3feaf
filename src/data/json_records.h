// The records of a JSON file one by one: the lines of a JSONL file, or the elements of one array. The memory is that of one
// record and 256 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/hash.h"
#include "formats/file.h"

namespace plimsoll {

// The limit of a record, in bytes. Reading, rendering and tokenising a sample takes up to 16 bytes of memory per byte of JSON.
inline constexpr std::int64_t kMostSampleBytes = std::int64_t{64} << 20;

struct JsonRecord {
  std::string text;
  std::int64_t line = 1;  // its first line, from 1
};

class JsonRecords {
 public:
  // A file whose first character is [ is an array, else lines. `most`: the limit of a record in bytes. `read`, which outlives
  // this, gets all bytes as they are read. E-DATA-MISSING: there is no file.
  explicit JsonRecords(const std::filesystem::path& path, std::int64_t most = kMostSampleBytes, Hasher* read = nullptr);

  const File& file() const { return file_; }
  // The next record; nothing after the last. Lines of white space are left out. E-DATA-JSON: a record is longer than the limit,
  // or an array is malformed.
  std::optional<JsonRecord> next();

 private:
  bool fill();
  // The next byte, or -1 at the end of the file.
  int peek();
  void skip();
  void skip_spaces();
  std::optional<JsonRecord> next_line();
  std::optional<JsonRecord> next_element();
  void keep(JsonRecord& record, char c) const;
  [[noreturn]] void fail_length(std::int64_t line) const;
  [[noreturn]] void fail(std::int64_t line, const std::string& why, const std::string& expected) const;

  File file_;
  Hasher* hasher_;
  std::string buffer_;
  std::size_t most_;
  std::size_t at_ = 0;
  std::int64_t read_ = 0, line_ = 1;
  bool array_ = false, begun_ = false, ended_ = false;
};

}  // namespace plimsoll
