#include "weights/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "formats/bounded_json.h"
#include "formats/file.h"

namespace plimsoll {
namespace {

constexpr const char* kSchema = "plimsoll.checkpoint/2";
constexpr std::string_view kChecksum = "\"xxh128\": \"", kEnd = "\"\n}\n";
constexpr std::size_t kDigits = 32;

std::string hash_of(std::string_view text) {
  Hasher hasher;
  return hasher.add(std::as_bytes(std::span(text))).hex();
}

bool is_plain(std::string_view name) { return !name.empty() && name.find('/') == std::string_view::npos && name.front() != '.'; }

}  // namespace

std::string state_file_name(int rank) { return rank == 0 ? kStateFile : fmt::format("state-{}.safetensors", rank); }

std::string manifest_text(const Manifest& manifest) {
  nlohmann::json object = to_json(manifest.progress);
  object["schema"] = kSchema;
  object["files"] = nlohmann::json::array();
  for (const ManifestFile& file : manifest.files) {
    object["files"].push_back({{"name", file.name}, {"bytes", file.bytes.n}, {"header_xxh128", file.header_xxh128}});
  }
  if (!manifest.pieces.empty()) {
    object["ranks"] = manifest.ranks;
    for (const Piece& piece : manifest.pieces) {
      object["pieces"].push_back(
          {{"file", manifest.files[piece.file].name}, {"tensor", piece.tensor}, {"begin", piece.begin}, {"end", piece.end}});
    }
  }
  std::string text = object.dump(1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  text.resize(text.size() - std::string_view("\n}").size());
  text += ",\n ";
  const std::string hash = hash_of(text);
  return text.append(kChecksum).append(hash).append(kEnd);
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  if (!is_there(path)) throw data_error("E-CKPT-CORRUPT", path.string(), "it is missing", "the files that were saved");
  const std::string text = read_text(path, kMostPieces.n, "E-CKPT-CORRUPT");
  const std::size_t tail = kChecksum.size() + kDigits + kEnd.size(), at = text.size() - std::min(tail, text.size());
  const std::string whole = fmt::format("{}{}{}", kChecksum, hash_of(std::string_view(text).substr(0, at)), kEnd);
  if (std::string_view(text).substr(at) != whole) {
    throw data_error("E-CKPT-CORRUPT", path.string(), "its checksum is not that of its bytes", "the bytes that were saved");
  }
  try {
    const nlohmann::json object = parse_json(text, {.bytes = kMostPieces.n});
    if (object.at("schema") != kSchema) throw std::out_of_range("its schema is " + object.at("schema").dump());
    Manifest manifest{progress_from(object), {}};
    for (const nlohmann::json& file : object.at("files")) {
      manifest.files.push_back({file.at("name"), Bytes{file.at("bytes").get<std::int64_t>()}, file.at("header_xxh128")});
      if (!is_plain(manifest.files.back().name)) throw std::out_of_range("a file's name is a path");
    }
    if (manifest.files.empty()) throw std::out_of_range("it names no file");
    manifest.ranks = object.value("ranks", std::int64_t{1});
    for (const nlohmann::json& piece : object.value("pieces", nlohmann::json::array())) {
      const auto file = std::ranges::find(manifest.files, piece.at("file").get<std::string>(), &ManifestFile::name);
      if (file == manifest.files.end()) throw std::out_of_range("a piece lies in no file");
      manifest.pieces.push_back({static_cast<std::size_t>(file - manifest.files.begin()), piece.at("tensor"),
                                 piece.at("begin").get<std::int64_t>(), piece.at("end").get<std::int64_t>()});
      const Piece& last = manifest.pieces.back();
      constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
      if (last.begin < 0 || last.begin >= last.end || last.end > kMostElements)
        throw std::out_of_range("a piece has no elements");
    }
    return manifest;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw data_error("E-CKPT-FORMAT", path.string(), error.what(), "a checkpoint that plimsoll train wrote");
  }
}

}  // namespace plimsoll
