#include "formats/kept_json.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "formats/atomic_file.h"
#include "formats/file_stamp.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSeal = "seal";

std::string seal_of(const std::filesystem::path& path, const json& object) {
  return Hasher().add(path.filename().string()).add(object.dump()).hex();
}

}  // namespace

void keep_json(const std::filesystem::path& path, json object) {
  std::error_code ignored;  // the write says what is wrong with the folder
  std::filesystem::create_directories(path.parent_path(), ignored);
  object[kSeal] = seal_of(path, object);
  write_file_atomically(path, object.dump(1) + "\n");
}

std::optional<json> kept_json(const std::filesystem::path& path, std::int64_t limit) {
  try {
    const std::optional<File> file = open_own_file(path);
    if (!file || file->size() > limit) return {};
    std::string text(static_cast<std::size_t>(file->size()), '\0');
    file->read_at(0, std::as_writable_bytes(std::span(text)));
    json object = json::parse(text);
    const json seal = object.at(kSeal);
    object.erase(kSeal);
    if (seal != seal_of(path, object)) return {};
    return object;
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace plimsoll
