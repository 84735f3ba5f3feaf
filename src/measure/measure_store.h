// How fast a tier takes and gives pages while kernels run, both at once, how fast it gives them while nothing goes out, and what
// kernels lose beside it; measured in a child process, and kept in a file.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/tier_store.h"
#include "plan/machine.h"

namespace plimsoll {

struct MeasuredStore {
  std::string name, file;  // for people; of the file that keeps it, which the number of threads is added to
  Bytes capacity;
  // Of so many bytes, with so many events at a time.
  std::function<std::unique_ptr<TierStore>(Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events)> open;
};

// What the file in the cache holds, or what is measured now: of one that is absent or damaged. One that cannot be written is said
// and does no harm. The pages are 1 MiB, from 8 to 84 of them, and as many of 32 KiB, within the capacity where it holds 9 MiB.
// The link has no ends yet.
Link store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache,
                const std::function<void(const std::string&)>& say);
// What the file in the cache holds; nothing is measured.
std::optional<Link> known_store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache);
Link between(std::size_t from, std::size_t to, Link link);

}  // namespace plimsoll
