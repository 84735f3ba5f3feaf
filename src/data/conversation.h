// Samples of conversations, from JSONL files and JSON arrays: what people have, in one shape. Files are read one sample at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
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

// By its keys, for each sample.
enum class SampleFormat { messages, sharegpt, alpaca, prompt_completion, text };
inline constexpr std::size_t kSampleFormats = 5;
std::string_view name_of(SampleFormat format);

struct ChatSample {
  std::string file;
  std::int64_t line = 1;   // on which it begins
  std::int64_t index = 0;  // of the sample in all files, from 0
  SampleFormat format = SampleFormat::messages;

  // A conversation: a list of dicts with the keys of the file, in their order. ShareGPT's and Alpaca's samples become one, too.
  jinja::Value messages;
  std::size_t first_trained = 0;  // messages before this one are a prompt
  std::vector<bool> trained;      // of each message, by its key `weight`
  jinja::Value tools;             // a list, or none
  // `chat_template_kwargs`: more variables for the template.
  std::vector<std::pair<std::string, jinja::Value>> variables;

  // Or texts: a prompt that is not trained, and what follows it. `text` has the second alone.
  std::string prompt, completion;

  bool is_chat() const { return messages.list() != nullptr; }
  // "data.jsonl:17"
  std::string where() const;
};

class SampleReader {
 public:
  // `most`: bytes of a sample's JSON. E-DATA-FILES, E-DATA-MISSING: as data_files() and File::open() say. `read`, which outlives
  // this, gets the bytes of each file as they are read, and their number.
  explicit SampleReader(const DataPaths& paths, std::int64_t most = kMostSampleBytes, Hasher* read = nullptr);
  ~SampleReader();
  SampleReader(SampleReader&&) noexcept;
  SampleReader& operator=(SampleReader&&) noexcept;

  // The next sample; nothing behind the last one of the last file. All errors name file and line:
  //   E-DATA-JSON      it is no JSON, or no UTF-8
  //   E-DATA-FORMAT    the file is of another kind (Parquet, a table, an archive)
  //   E-CHAT-SAMPLE    it has the keys of no format, or a message lacks something
  //   E-CHAT-FEATURE   it has something that is not trained on: preferences, images
  std::optional<ChatSample> next();
  // How many samples of each format came so far.
  const std::array<std::int64_t, kSampleFormats>& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One sample from its JSON. `sample` says where it comes from.
ChatSample parse_sample(std::string_view json, ChatSample sample);

}  // namespace plimsoll
