// How fast a tier takes and gives pages, both at once, how fast it gives them alone, and what kernels lose beside it; measured in
// a child process, and kept in a file.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/tier_store.h"

namespace plimsoll {

struct StoreRate {
  double bytes_per_second = 0, latency_seconds = 0;  // a page takes latency + bytes / rate
  double alone_bytes_per_second = 0;                 // with nothing the other way
  double kernel_seconds_per_byte = 0;                // lost beside it
};

// A store of these pieces, with so many events at a time.
using StoreOfPieces =
    std::function<std::unique_ptr<TierStore>(const std::vector<TierStore::Piece>& pieces, std::uint32_t events)>;

// What the file holds, or what is measured now: of a file that is absent, damaged or of another `kind`. One that cannot be
// written is said and does no harm. The pages are 1 MiB, from 8 to 84 of them, and an eighth of that, within the capacity where
// it holds 9 MiB. `what` is for people.
StoreRate store_rate(const StoreOfPieces& store, Bytes capacity, int threads, const std::string& kind, const std::string& what,
                     const std::filesystem::path& file, const std::function<void(const std::string&)>& say);

}  // namespace plimsoll
