#include "data/token_place.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

using nlohmann::json;

FileStamp stamp_from(const json& stamp) { return {stamp.at(0), stamp.at(1), stamp.at(2), stamp.at(3)}; }

}  // namespace

const std::string& json_path(const std::string& path) {
  if (utf8_valid_prefix(path) == path.size()) return path;
  throw data_error("E-DATA-PATH", path, "the path is not UTF-8", "a path in UTF-8, and a cache folder whose path is");
}

json to_json(const FileStamp& stamp) { return {stamp.device, stamp.inode, stamp.size, stamp.modified}; }

File file_at(const std::string& path, const json& stamp) {
  File file = File::open(path, "E-DATA-MISSING");
  require_unchanged(file, stamp_from(stamp));
  return file;
}

json to_json(const SampleCounts& counts) {
  json object;
  for (const auto& [name, count] : kSampleCounts) object[name] = counts.*count;
  return object;
}

json to_json(const TokenFile& file) {
  json parts = json::array();
  for (const TokenPart& part : file.parts) {
    parts.push_back({{"path", json_path(part.file.path())},
                     {"name", json_path(part.name)},
                     {"offset", part.offset},
                     {"tokens", part.tokens},
                     {"stamp", to_json(part.stamp)}});
  }
  return {{"parts", parts},
          {"name", file.name},
          {"format", file.format},
          {"width", file.bytes_per_token},
          {"vocab", file.vocab},
          {"samples", file.samples},
          {"table", file.table},
          {"keeps_vocab", file.keeps_vocab},
          {"counts", to_json(file.counts)},
          {"notes", file.notes}};
}

TokenFile token_file_from(const json& object) {
  TokenFile file;
  for (const json& part : object.at("parts")) {
    file.parts.push_back({file_at(part.at("path"), part.at("stamp")), part.at("name"), part.at("offset"), part.at("tokens"),
                          stamp_from(part.at("stamp"))});
    file.tokens += file.parts.back().tokens;
  }
  file.name = object.at("name");
  file.format = object.at("format");
  file.bytes_per_token = object.at("width");
  file.vocab = object.at("vocab");
  file.samples = object.at("samples");
  file.table = object.at("table");
  file.keeps_vocab = object.at("keeps_vocab");
  for (const auto& [name, count] : kSampleCounts) file.counts.*count = object.at("counts").at(name);
  file.notes = object.at("notes");
  return file;
}

}  // namespace plimsoll
