#include "base/symbol.h"

#include <array>
#include <mutex>
#include <unordered_set>

namespace plimsoll {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Several shelves, so that parallel planning threads seldom wait.
struct Shelf {
  std::mutex mutex;
  std::unordered_set<std::string, TextHash, std::equal_to<>> texts;  // with stable addresses
};

}  // namespace

constinit const std::string Symbol::kEmpty;

Symbol::Symbol(std::string_view text) {
  static std::array<Shelf, 128> shelves;
  if (text.empty()) return;
  Shelf& shelf = shelves[TextHash()(text) % shelves.size()];
  const std::lock_guard lock(shelf.mutex);
  auto found = shelf.texts.find(text);
  if (found == shelf.texts.end()) found = shelf.texts.emplace(text).first;
  text_ = &*found;
}

}  // namespace plimsoll
