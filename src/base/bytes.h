// A number of bytes as a type, and its text forms ("512MiB", "1.42 GiB").
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ceil_div.h"

namespace plimsoll {

struct Bytes {
  std::int64_t n = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t n) : n(n) {}

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.n + b.n}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.n - b.n}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t k) { return Bytes{a.n * k}; }
  constexpr Bytes& operator+=(Bytes b) {
    n += b.n;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes b) {
    n -= b.n;
    return *this;
  }
};

inline constexpr Bytes kKiB{1024};
inline constexpr Bytes kMiB{1024 * 1024};
inline constexpr Bytes kGiB{1024LL * 1024 * 1024};
inline constexpr Bytes kPage{4096};
// A cache line and the widest vector; alignment of the parts of a scratch.
inline constexpr Bytes kCacheLine{64};
// Alignment of buffers in an arena: a disk controller takes them without a copy (O_DIRECT).
inline constexpr Bytes kAlignment{512};

constexpr Bytes align_up(Bytes size, Bytes alignment) { return Bytes{round_up(size.n, alignment.n)}; }

// Parses "512MiB", "2GiB", "2g", "1.5 GB", "1500000000". Units ending in "iB" and single letters "K", "M", "G", "T" are binary,
// like in most tools; "KB", "MB", "GB", "TB" are decimal. Case does not matter. Throws config_error E-CONFIG-SIZE with the place
// `where` for other texts, negative sizes and sizes above 2^62.
Bytes parse_bytes(std::string_view text, std::string_view where);

// "1.42 GiB", "512.0 MiB", "64 B".
std::string to_text(Bytes size);

}  // namespace plimsoll
