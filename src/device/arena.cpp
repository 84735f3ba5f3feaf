#include "device/arena.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;

Error refused(Bytes size) {
  return {ErrorKind::environment,
          ExitCode::does_not_fit,
          "E-MEM-ARENA",
          "arena",
          fmt::format("the system refuses {}: {}", to_text(size), std::strerror(errno)),
          "free memory of that size, within the limits of the process and its container",
          {"a smaller budget", "ulimit -v unlimited"}};
}

}  // namespace

Arena::Arena(Bytes size, Bytes beyond) : size_(size), mapped_(align_up(size + beyond, kPage)) {
  // Room to align the base, and a guard on each side that is never made accessible.
  reserved_ = static_cast<std::size_t>(mapped_.n + 2 * kHugePage + kPage.n);
  reservation_ = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation_ == MAP_FAILED) throw refused(size);
  const auto start = reinterpret_cast<std::uintptr_t>(reservation_);
  base_ = reinterpret_cast<std::byte*>((start + static_cast<std::uintptr_t>(kPage.n) + kHugePage - 1) / kHugePage * kHugePage);
  if (mapped_.n == 0) return;
  if (!lay_tail() || mprotect(base_, static_cast<std::size_t>(mapped_.n), PROT_READ | PROT_WRITE) != 0) {
    const Error error = refused(size);
    munmap(reservation_, reserved_);
    throw error;
  }
  madvise(base_, static_cast<std::size_t>(mapped_.n), MADV_HUGEPAGE);
  touch();
}

Arena::~Arena() { munmap(reservation_, reserved_); }

// Cuts the tail, the bytes after the last whole huge page, out of one more huge page. The rest goes back to the system at once:
//   | huge page | huge page | tail |  rest  |
// The pages of the tail are then contiguous in physical memory. They are one entry of a device's list, and a virtual disk moves
// them nearly twice as fast as scattered pages. The tail is made before touch(), so the process never has more memory than at the
// end. Without huge pages this has no effect. Returns false if the system refuses memory that the arena needs.
bool Arena::lay_tail() const {
  const std::int64_t whole = mapped_.n / kHugePage * kHugePage, tail = mapped_.n - whole;
  if (whole == 0 || tail == 0) return true;
  std::byte* const page = base_ + whole;
  if (mprotect(page, kHugePage, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(page, kHugePage, MADV_HUGEPAGE);
  // The kernel drops pages of zeros when it splits a huge page.
  for (std::int64_t at = 0; at < tail; at += kPage.n) page[at] = std::byte{1};
  const auto rest = static_cast<std::size_t>(kHugePage - tail);
  if (madvise(page + tail, rest, MADV_DONTNEED) != 0 || mprotect(page + tail, rest, PROT_NONE) != 0) return false;
  madvise(page, static_cast<std::size_t>(kPage.n), MADV_COLD);  // advice for a part: the kernel splits the page
  return true;
}

// All threads touch pages: a single one faults huge pages in at a fraction of the rate.
void Arena::touch() const {
  const std::int64_t pieces = ceil_div(mapped_.n, kHugePage);
  cpu::parallel_for(pieces, [&](std::int64_t piece) {
    const std::int64_t end = std::min(mapped_.n, (piece + 1) * kHugePage);
    for (std::int64_t at = piece * kHugePage; at < end; at += kPage.n) base_[at] = std::byte{0};
  });
}

Bytes Arena::resident() const {
  constexpr std::int64_t kPagesAtOnce = 1 << 15;
  std::vector<unsigned char> flags(kPagesAtOnce);
  std::int64_t pages = 0;
  for (std::int64_t at = 0; at < mapped_.n; at += kPagesAtOnce * kPage.n) {
    const std::int64_t bytes = std::min(mapped_.n - at, kPagesAtOnce * kPage.n);
    if (mincore(base_ + at, static_cast<std::size_t>(bytes), flags.data()) != 0) break;
    for (std::int64_t page = 0; page < bytes / kPage.n; ++page) pages += flags[static_cast<std::size_t>(page)] & 1;
  }
  return kPage * pages;
}

}  // namespace plimsoll
