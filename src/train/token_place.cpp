#include "train/token_place.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/utf8.h"
#include "train/child.h"
#include "train/setup.h"

namespace plimsoll {

using nlohmann::json;

TokenFilePlace place_of(const TokenFile& file) {
  return {file.file.path(), file.name, file.offset, file.tokens, file.bytes_per_token, file.vocab};
}

TokenFile open_place(const TokenFilePlace& place) {
  TokenFile file;
  file.file = File::open(place.path, "E-DATA-MISSING");
  file.name = place.name;
  file.offset = place.offset;
  file.tokens = place.tokens;
  file.bytes_per_token = place.bytes_per_token;
  file.vocab = place.vocab;
  return file;
}

json to_json(const TokenFilePlace& place) {
  for (const std::string& text : {place.path, place.name}) {
    if (utf8_valid_prefix(text) != text.size()) {
      throw data_error("E-DATA-PATH", text, "the path is not UTF-8", "a path in UTF-8, and a cache folder whose path is");
    }
  }
  return {{"path", place.path},
          {"name", place.name},
          {"offset", place.offset},
          {"tokens", place.tokens},
          {"width", place.bytes_per_token},
          {"vocab", place.vocab}};
}

TokenFilePlace place_from(const json& object) {
  return {object.at("path"), object.at("name"), object.at("offset"), object.at("tokens"), object.at("width"), object.at("vocab")};
}

TokenFile open_in_child(const Config& config, const std::filesystem::path& path, const std::filesystem::path& cache) {
  const std::string place = run_in_child([&] { return to_json(place_of(open_data_file(config, path, cache))).dump(); });
  return open_place(place_from(nlohmann::json::parse(place)));
}

}  // namespace plimsoll
