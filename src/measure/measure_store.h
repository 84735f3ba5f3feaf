// The rates of a tier while kernels run: reading and writing at once, reading alone, and the slowdown of the kernels. Measured in
// a child process and kept in a file.
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
  std::string name, file;  // for messages; the name of the cache file up to the number of threads
  Bytes capacity;
  // Opens a store of `size` bytes with `events` events at a time.
  std::function<std::unique_ptr<TierStore>(Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events)> open;
};

// The link from the file in the cache, or measured now if the file is absent or damaged. An unwritable file is only reported. The
// measurement uses 8 to 84 pages of 1 MiB and the same number of 32 KiB, within the capacity if that is 9 MiB or more. The link
// has no ends yet.
Link store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache,
                const std::function<void(const std::string&)>& say);
// The link from the file in the cache; nothing is measured.
std::optional<Link> known_store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache);
Link between(std::size_t from, std::size_t to, Link link);

}  // namespace plimsoll
