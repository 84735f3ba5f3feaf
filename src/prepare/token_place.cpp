#include "prepare/token_place.h"

#include <nlohmann/json.hpp>

#include "base/child.h"
#include "base/error.h"
#include "formats/utf8.h"
#include "prepare/setup.h"

namespace plimsoll {

using nlohmann::json;

TokenFilePlace place_of(const TokenFile& file) {
  TokenFilePlace place{{}, file.name, file.format, file.bytes_per_token, file.vocab, file.samples, file.table};
  for (const TokenPart& part : file.parts) place.parts.push_back({part.file.path(), part.name, part.offset, part.tokens});
  return place;
}

TokenFile open_place(const TokenFilePlace& place) {
  TokenFile file;
  for (const TokenPartPlace& part : place.parts) {
    file.parts.push_back({File::open(part.path, "E-DATA-MISSING"), part.name, part.offset, part.tokens});
    file.tokens += part.tokens;
  }
  file.name = place.name;
  file.format = place.format;
  file.bytes_per_token = place.bytes_per_token;
  file.vocab = place.vocab;
  file.samples = place.samples;
  file.table = place.table;
  return file;
}

json to_json(const TokenFilePlace& place) {
  json parts = json::array();
  for (const TokenPartPlace& part : place.parts) {
    for (const std::string& text : {part.path, part.name}) {
      if (utf8_valid_prefix(text) != text.size()) {
        throw data_error("E-DATA-PATH", text, "the path is not UTF-8", "a path in UTF-8, and a cache folder whose path is");
      }
    }
    parts.push_back({{"path", part.path}, {"name", part.name}, {"offset", part.offset}, {"tokens", part.tokens}});
  }
  return {{"parts", parts},       {"name", place.name},       {"format", place.format}, {"width", place.bytes_per_token},
          {"vocab", place.vocab}, {"samples", place.samples}, {"table", place.table}};
}

TokenFilePlace place_from(const json& object) {
  TokenFilePlace place{{},
                       object.at("name"),
                       object.at("format"),
                       object.at("width"),
                       object.at("vocab"),
                       object.at("samples"),
                       object.at("table")};
  for (const json& part : object.at("parts")) {
    place.parts.push_back({part.at("path"), part.at("name"), part.at("offset"), part.at("tokens")});
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
