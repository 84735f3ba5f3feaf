#include "prepare/token_place.h"

#include <nlohmann/json.hpp>

#include "base/child.h"
#include "base/error.h"
#include "formats/utf8.h"
#include "prepare/training_graph.h"

namespace plimsoll {

using nlohmann::json;

TokenFilePlace place_of(const TokenFile& file) {
  TokenFilePlace place{{},           file.name,  file.format,      file.bytes_per_token, file.vocab,
                       file.samples, file.table, file.keeps_vocab, file.counts,          file.notes};
  for (const TokenPart& part : file.parts) {
    place.parts.push_back({part.file.path(), part.name, part.offset, part.tokens, part.stamp});
  }
  return place;
}

TokenFile open_place(const TokenFilePlace& place) {
  TokenFile file;
  for (const TokenPartPlace& part : place.parts) {
    file.parts.push_back({File::open(part.path, "E-DATA-MISSING"), part.name, part.offset, part.tokens, part.stamp});
    require_unchanged(file.parts.back().file, part.stamp);
    file.tokens += part.tokens;
  }
  file.name = place.name;
  file.format = place.format;
  file.bytes_per_token = place.bytes_per_token;
  file.vocab = place.vocab;
  file.samples = place.samples;
  file.table = place.table;
  file.keeps_vocab = place.keeps_vocab;
  file.counts = place.counts;
  file.notes = place.notes;
  return file;
}

json to_json(const SampleCounts& counts) {
  json object;
  for (const auto& [name, count] : kSampleCounts) object[name] = counts.*count;
  return object;
}

namespace {

SampleCounts counts_from(const json& object) {
  SampleCounts counts;
  for (const auto& [name, count] : kSampleCounts) counts.*count = object.at(name);
  return counts;
}

json to_json(const FileStamp& stamp) { return {stamp.device, stamp.inode, stamp.size, stamp.modified}; }
FileStamp stamp_from(const json& list) { return {list.at(0), list.at(1), list.at(2), list.at(3)}; }

}  // namespace

json to_json(const TokenFilePlace& place) {
  json parts = json::array();
  for (const TokenPartPlace& part : place.parts) {
    for (const std::string& text : {part.path, part.name}) {
      if (utf8_valid_prefix(text) != text.size()) {
        throw data_error("E-DATA-PATH", text, "the path is not UTF-8", "a path in UTF-8, and a cache folder whose path is");
      }
    }
    parts.push_back({{"path", part.path},
                     {"name", part.name},
                     {"offset", part.offset},
                     {"tokens", part.tokens},
                     {"stamp", to_json(part.stamp)}});
  }
  return {{"parts", parts},
          {"name", place.name},
          {"format", place.format},
          {"width", place.bytes_per_token},
          {"vocab", place.vocab},
          {"samples", place.samples},
          {"table", place.table},
          {"keeps_vocab", place.keeps_vocab},
          {"counts", to_json(place.counts)},
          {"notes", place.notes}};
}

TokenFilePlace place_from(const json& object) {
  TokenFilePlace place{{},
                       object.at("name"),
                       object.at("format"),
                       object.at("width"),
                       object.at("vocab"),
                       object.at("samples"),
                       object.at("table"),
                       object.at("keeps_vocab"),
                       counts_from(object.at("counts")),
                       object.at("notes")};
  for (const json& part : object.at("parts")) {
    place.parts.push_back({part.at("path"), part.at("name"), part.at("offset"), part.at("tokens"), stamp_from(part.at("stamp"))});
  }
  return place;
}

namespace {

template <class Open>
TokenFile open_in_child(const Open& open) {
  const std::string place = run_in_child([&] { return to_json(place_of(open())).dump(); });
  return open_place(place_from(json::parse(place)));
}

}  // namespace

TokenFile open_in_child(const Config& config, const DataPaths& paths, const std::filesystem::path& cache) {
  return open_in_child([&] { return open_data_file(config, paths, cache); });
}

TokenFile open_training_in_child(const Config& config, const std::filesystem::path& cache) {
  if (config.data.validation_share == 0) return open_in_child(config, config.data.train, cache);
  return open_in_child([&] { return open_data(config, cache).train; });
}

TokenFile open_validation_in_child(const Config& config, const std::filesystem::path& cache) {
  const DataPaths& paths = config.data.validation;
  if (config.data.validation_share == 0) return open_in_child(config, paths.empty() ? config.data.train : paths, cache);
  return open_in_child([&] { return *open_data(config, cache).validation; });
}

}  // namespace plimsoll
