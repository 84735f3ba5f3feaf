#include "prepare/token_place.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/child.h"
#include "base/error.h"
#include "formats/utf8.h"
#include "prepare/training_graph.h"

namespace plimsoll {
namespace {

using nlohmann::json;

template <class Open>
TokenFile open_in_child(const Open& open) {
  return token_file_from(json::parse(run_in_child([&] { return to_json(open()).dump(); })));
}

}  // namespace

json to_json(const SampleCounts& counts) {
  json object;
  for (const auto& [name, count] : kSampleCounts) object[name] = counts.*count;
  return object;
}

json to_json(const TokenFile& file) {
  json parts = json::array();
  for (const TokenPart& part : file.parts) {
    for (const std::string& text : {part.file.path(), part.name}) {
      if (utf8_valid_prefix(text) != text.size()) {
        throw data_error("E-DATA-PATH", text, "the path is not UTF-8", "a path in UTF-8, and a cache folder whose path is");
      }
    }
    parts.push_back({{"path", part.file.path()},
                     {"name", part.name},
                     {"offset", part.offset},
                     {"tokens", part.tokens},
                     {"stamp", {part.stamp.device, part.stamp.inode, part.stamp.size, part.stamp.modified}}});
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
    const json& stamp = part.at("stamp");
    const std::string path = part.at("path");
    file.parts.push_back({File::open(path, "E-DATA-MISSING"),
                          part.at("name"),
                          part.at("offset"),
                          part.at("tokens"),
                          {stamp.at(0), stamp.at(1), stamp.at(2), stamp.at(3)}});
    require_unchanged(file.parts.back().file, file.parts.back().stamp);
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
