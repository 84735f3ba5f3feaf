#include "formats/weight_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>

#include "formats/file.h"
#include "formats/json_stream.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  return Json(std::string(text.substr(0, kMost))).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Receives the events of the JSON parser. A return value of false stops the parser; `problem` then has the reason.
class IndexEvents : public nlohmann::json_sax<Json> {
 public:
  std::vector<std::pair<std::string, std::string>> entries;  // tensor and file
  std::string problem;
  bool has_map = false;

  bool start_object(std::size_t) override {
    if (depth_ == 1 && at_map()) {
      if (has_map) return refuse("weight_map appears twice");
      has_map = in_map_ = true;
    } else if (!value("an object")) {
      return false;
    }
    return enter();
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool start_array(std::size_t) override { return value("a list") && enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& text) override {
    constexpr std::size_t kMaxNameBytes = 4096;
    if (depth_ > 2) return true;
    if (text.size() > kMaxNameBytes) return refuse(fmt::format("a name of {} bytes", text.size()));
    key_ = text;
    return true;
  }
  bool string(std::string& text) override {
    if (!in_map_ || depth_ != 2) return value("a text");
    if (!is_plain_name(text)) return refuse(fmt::format("{} is in {}, which is not a plain file name", shown(key_), shown(text)));
    if (!text.ends_with(".safetensors"))
      return refuse(fmt::format("{} is in {}, which is no safetensors file", shown(key_), shown(text)));
    if (entries.size() == kMaxIndexTensors) return refuse(fmt::format("it names more than {} tensors", kMaxIndexTensors));
    entries.emplace_back(key_, text);
    return true;
  }
  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a truth value"); }
  bool number_integer(std::int64_t) override { return value("a number"); }
  bool number_unsigned(std::uint64_t) override { return value("a number"); }
  bool number_float(double, const std::string&) override { return value("a number"); }
  bool binary(Json::binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return refuse(fmt::format("it is not JSON at byte {}", position));
  }

 private:
  static constexpr int kMaxDepth = 16;

  bool at_map() const { return key_ == "weight_map"; }
  bool enter() { return ++depth_ <= kMaxDepth || refuse("it is nested too deeply"); }
  // True if a value other than a file of weight_map is allowed here.
  bool value(const char* what) {
    if (depth_ == 0 && what != std::string_view("an object")) return refuse(fmt::format("it is {}, not an object", what));
    if (in_map_ && depth_ == 2) return refuse(fmt::format("the file of {} is {}", shown(key_), what));
    if (depth_ == 1 && key_ == "metadata" && what != std::string_view("an object"))
      return refuse(fmt::format("metadata is {}", what));
    return depth_ != 1 || !at_map() || refuse(fmt::format("weight_map is {}", what));
  }
  bool refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }

  int depth_ = 0;  // 1: the whole, 2: weight_map or metadata
  bool in_map_ = false;
  std::string key_;
};

}  // namespace

Error index_error(const std::filesystem::path& path, std::string what) {
  return data_error("E-FORMAT-INDEX", path.string(), std::move(what),
                    "an index whose weight_map names each tensor once, with the file in this folder that holds it",
                    {"fetch the folder again, all of its files"});
}

bool is_plain_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 255;
  if (name.empty() || name.size() > kMaxBytes || name == "." || name == "..") return false;
  return std::ranges::none_of(name, [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
}

WeightIndex read_weight_index(const std::filesystem::path& path) {
  const File whole = File::open(path);
  if (whole.size() > kMaxIndexBytes) {
    throw index_error(path, fmt::format("it has {} bytes, and at most {} are read", whole.size(), kMaxIndexBytes));
  }
  IndexEvents events;
  JsonStream buffer(whole, 0, whole.size(), {.refuse = [&](std::string why) { return index_error(path, std::move(why)); }});
  std::istream stream(&buffer);
  if (!Json::sax_parse(stream, &events)) throw index_error(path, events.problem);
  if (!events.has_map) throw index_error(path, "it has no weight_map");
  if (events.entries.empty()) throw index_error(path, "its weight_map is empty");

  std::ranges::sort(events.entries);
  const auto name_of = [](const auto& entry) -> const std::string& { return entry.first; };
  const auto twice = std::ranges::adjacent_find(events.entries, {}, name_of);
  if (twice != events.entries.end()) throw index_error(path, fmt::format("tensor {} appears twice", shown(twice->first)));
  WeightIndex index;
  for (const auto& [tensor, file] : events.entries) index.files.push_back(file);
  std::ranges::sort(index.files);
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  if (index.files.size() > kMaxShards) {
    throw index_error(path, fmt::format("it names {} files; at most {} are read", index.files.size(), kMaxShards));
  }
  for (auto& [tensor, file] : events.entries) {
    const auto place = std::ranges::lower_bound(index.files, file) - index.files.begin();
    index.places.emplace_back(std::move(tensor), static_cast<std::uint32_t>(place));
  }
  return index;
}

// The format is that of transformers.
std::string weight_index_text(const WeightIndex& index, std::int64_t total_bytes) {
  const auto quoted = [](const std::string& name) { return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace); };
  std::string text = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total_bytes);
  const char* comma = "\n";
  for (const auto& [tensor, file] : index.places) {
    text += fmt::format("{}    {}: {}", comma, quoted(tensor), quoted(index.files[file]));
    comma = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace plimsoll
