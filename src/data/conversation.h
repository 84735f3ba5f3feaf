// Samples of conversations from JSONL files and JSON arrays, brought into one shape. Files are read one sample at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "data/data_paths.h"
#include "data/json_records.h"
#include "formats/jinja/value.h"

namespace plimsoll {

// The format of a sample, told by its keys.
enum class SampleFormat { messages, sharegpt, alpaca, prompt_completion, text };
inline constexpr std::size_t kSampleFormats = 5;
std::string_view name_of(SampleFormat format);

struct ChatSample {
  std::string file;
  std::int64_t line = 1;   // its first line, from 1
  std::int64_t index = 0;  // among the samples of all files, from 0
  SampleFormat format = SampleFormat::messages;

  // A conversation: a list of dicts with the keys of the file in their order. Samples of ShareGPT and Alpaca become one, too.
  jinja::Value messages;
  std::size_t first_trained = 0;  // messages before this one are a prompt
  std::vector<bool> trained;      // one per message, by its key `weight`
  jinja::Value tools;             // a list, or none
  // `chat_template_kwargs`: more variables for the template.
  std::vector<std::pair<std::string, jinja::Value>> variables;

  // Or texts: an untrained prompt and its completion. The format `text` has a completion alone.
  std::string prompt, completion;

  bool is_chat() const { return messages.list() != nullptr; }
  // "data.jsonl:17"
  std::string where() const;
};

class SampleReader {
 public:
  // `most`: the limit of a sample's JSON in bytes. `read`, which outlives this, gets the bytes of each file as they are read, and
  // their number. E-DATA-FILES, E-DATA-MISSING: see data_files() and File::open().
  explicit SampleReader(const DataPaths& paths, std::int64_t most = kMostSampleBytes, Hasher* read = nullptr);

  // The next sample; nothing after the last one of the last file. All errors name file and line:
  //   E-DATA-JSON      the sample is no JSON, or no UTF-8
  //   E-DATA-FORMAT    the file is of another kind (Parquet, a table, an archive)
  //   E-CHAT-SAMPLE    the sample has the keys of no format, or a message lacks a key
  //   E-CHAT-FEATURE   the sample has content that is not supported: preferences, images
  std::optional<ChatSample> next();
  // The number of samples of each format so far.
  const std::array<std::int64_t, kSampleFormats>& counts() const { return counts_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::size_t next_file_ = 0;
  std::int64_t most_;
  Hasher* read_;
  std::optional<JsonRecords> records_;
  std::int64_t samples_ = 0;
  std::array<std::int64_t, kSampleFormats> counts_{};
};

// One sample from its JSON. `sample` holds its file, line and index.
ChatSample parse_sample(std::string_view json, ChatSample sample);

}  // namespace plimsoll
