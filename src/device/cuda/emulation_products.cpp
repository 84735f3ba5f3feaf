#include "device/cuda/emulation_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda/emulation.h"
#include "tensor/half.h"

namespace plimsoll::cuda::emulation {
namespace {

constexpr std::size_t kLanes = 32, kWarps = 4, kGroup = kLanes * kWarps;
constexpr unsigned kRows = 64, kSum = 16;  // of a product: rows of A, and elements of one of its sums
constexpr unsigned kReserved = 1024;       // bytes of the system before a block's shared memory
constexpr unsigned kRowBytes = 128, kAtom = 8 * kRowBytes, kChunk = 16;
constexpr std::uint32_t kPoison = 0xFFFFFFFF;  // NaN as a float, and as two elements of 16 bits

void must(bool holds, const char* otherwise) { ensure(holds, "emulation", otherwise); }

// PTX ISA, "Matrix Descriptor Format": addresses and offsets without their four lowest bits.
class Descriptor {
 public:
  explicit Descriptor(std::uint64_t bits) : start_(field(bits, 0)), leading_(field(bits, 16)), stride_(field(bits, 32)) {
    constexpr std::uint64_t kUnused = 0x3FF1C000C000C000, kSwizzle128 = 1;
    must((bits & kUnused) == 0, "unused bits of a descriptor are set");
    must(bits >> 62 == kSwizzle128, "a descriptor states another swizzle than that of 128 bytes");
    must((bits >> 49 & 7) == 0 && start_ % kAtom < kRowBytes, "a tile does not begin at a multiple of 1,024 bytes");
    must(stride_ != 0 && stride_ % kAtom == 0, "the stride of a descriptor is not that of eight rows of 128 bytes");
  }

  // The chunks of 16 bytes of an operand, row by row. `rows`: of A, or columns of B. A row of an operand that runs along the sum
  // has two chunks; otherwise, a row is one element of all sums.
  template <class F>
  void for_each_chunk(bool transposed, unsigned rows, F f) const {
    if (!transposed) {
      must(start_ % (2 * kChunk) == 0, "16 elements of a sum do not begin at a multiple of 32 bytes");
      for (unsigned row = 0; row < rows; ++row) {
        for (unsigned i = 0; i < 2; ++i) f(swizzled(start_ + row / 8 * stride_ + row % 8 * kRowBytes + i * kChunk));
      }
      return;
    }
    must(start_ % kAtom == 0, "a tile of transposed rows does not begin at a multiple of 1,024 bytes");
    must(rows <= 64 || (leading_ != 0 && leading_ % kAtom == 0), "the next 64 columns are not at a multiple of 1,024 bytes");
    for (unsigned k = 0; k < kSum; ++k) {
      for (unsigned i = 0; i < rows / 8; ++i) {
        f(swizzled(start_ + i / 8 * leading_ + k / 8 * stride_ + k % 8 * kRowBytes + i % 8 * kChunk));
      }
    }
  }

 private:
  static std::uint32_t field(std::uint64_t bits, unsigned at) { return static_cast<std::uint32_t>(bits >> at & 0x3FFF) << 4; }
  static std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70); }

  std::uint32_t start_, leading_, stride_;
};

using Elements = std::vector<std::uint16_t>;

// A product that the warps of a group issue one after the other.
struct Issued {
  Product product;
  Elements a, b;       // operands in shared memory, in the order of their chunks
  std::size_t waited;  // number of warps
};
struct Group {
  std::deque<Issued> products;  // those that some warp has not waited for
  std::size_t before = 0;       // number of products before them
};

// Registers of one lane from the first product that has them to the last.
struct Held {
  std::byte* registers;
  std::vector<std::uint32_t> content;
  std::size_t products;

  std::size_t bytes() const { return content.size() * sizeof content[0]; }
};
struct Mine {
  std::byte *c, *a;
  unsigned committed;  // number of the group of products
};
struct Thread {
  bool began = false, shown = false;
  unsigned committed = 0;
  std::size_t issued = 0;
  std::vector<Mine> pending;
  std::vector<Held> held;
};

bool together = true;
bool used = false;  // by the running block
std::vector<Thread> threads;
std::vector<Group> groups;
std::size_t shown_threads = 0;
std::vector<std::byte> shown, visible;  // shared memory as the last thread showed it, and as products see it

Thread& self() {
  used = true;
  if (threads.empty()) {
    threads.resize(threads_of_block());
    groups.resize(threads_of_block() / kGroup);
  }
  return threads[thread_of_block()];
}

// `first`: by the first of the group's threads; later ones compare.
Elements elements_of(std::uint64_t descriptor, bool transposed, unsigned rows, bool first) {
  const std::span<const std::byte> shared = shared_bytes();
  Elements elements(rows * kSum);
  auto* to = reinterpret_cast<std::byte*>(elements.data());
  Descriptor(descriptor).for_each_chunk(transposed, rows, [&](std::uint32_t address) {
    const std::size_t at = address - kReserved;
    must(address >= kReserved && at + kChunk <= shared.size(), "a descriptor states memory outside of the block's");
    must(!first || (!visible.empty() && std::memcmp(&visible[at], &shared[at], kChunk) == 0),
         "an operand has not been shown to products before a barrier");
    std::memcpy(to, &shared[at], kChunk);
    to += kChunk;
  });
  return elements;
}

Elements rows_of_a(const Product& product, bool first) {
  return product.a_held ? Elements() : elements_of(product.a, product.a_transposed, kRows, first);
}
Elements columns_of_b(const Product& product, bool first) {
  return elements_of(product.b, product.b_transposed, product.columns, first);
}

Held& held_of(Thread& thread, const std::byte* registers) {
  return *std::find_if(thread.held.begin(), thread.held.end(), [&](const Held& held) { return held.registers == registers; });
}

void hold(Thread& thread, std::byte* registers, std::size_t count) {
  for (Held& held : thread.held) {
    if (held.registers + held.bytes() <= registers || registers + count * sizeof kPoison <= held.registers) continue;
    must(held.registers == registers && held.content.size() == count, "products in flight have parts of the same registers");
    ++held.products;
    return;
  }
  must(thread.began, "registers of a product have no fence before it");
  Held held{registers, std::vector<std::uint32_t>(count), 1};
  std::memcpy(held.content.data(), registers, held.bytes());
  std::memset(registers, 0xFF, held.bytes());
  thread.held.push_back(std::move(held));
}

void check_poison(const Held& held) {
  for (std::size_t i = 0; i < held.content.size(); ++i) {
    must(std::memcmp(held.registers + i * sizeof kPoison, &kPoison, sizeof kPoison) == 0,
         "registers of a product are written before the wait for it");
  }
}

void let_go(Thread& thread, const std::byte* registers) {
  Held& held = held_of(thread, registers);
  if (--held.products > 0) return;
  std::memcpy(held.registers, held.content.data(), held.bytes());
  std::swap(held, thread.held.back());
  thread.held.pop_back();
}

// 16 rows of a product.
class Rows {
 public:
  explicit Rows(const Issued& issued)
      : product_(issued.product), columns_(product_.columns), b_(kSum * columns_), sums_(columns_) {
    for (unsigned k = 0; k < kSum; ++k) {
      for (unsigned n = 0; n < columns_; ++n)
        b_[k * columns_ + n] = widen(issued.b[product_.b_transposed ? k * columns_ + n : n * kSum + k]);
    }
  }

  void set_a(unsigned row, unsigned k, std::uint16_t element) { a_[row][k] = widen(element); }

  // `c`: registers of the four lanes that have a row (mma.cuh). Products are exact, and each sum is rounded once.
  void multiply(unsigned row, const std::array<std::uint32_t*, 4>& c) {
    const auto at = [&](unsigned n) -> std::uint32_t& { return c[n % 8 / 2][n / 8 * 4 + row / 8 * 2 + n % 2]; };
    for (unsigned n = 0; n < columns_; ++n) sums_[n] = product_.adds ? std::bit_cast<float>(at(n)) : 0;
    for (unsigned k = 0; k < kSum; ++k) {
      for (unsigned n = 0; n < columns_; ++n) sums_[n] += a_[row][k] * b_[k * columns_ + n];
    }
    for (unsigned n = 0; n < columns_; ++n) at(n) = std::bit_cast<std::uint32_t>(static_cast<float>(sums_[n]));
  }

 private:
  double widen(std::uint16_t element) const { return product_.bf16 ? widen_bf16(element) : widen_f16(element); }

  const Product& product_;
  unsigned columns_;
  std::vector<double> b_, sums_;
  std::array<std::array<double, kSum>, 16> a_;
};

// The part of a warp. `number`: of the product among those that its lanes wait for.
void multiply_rows(const Issued& issued, std::span<Thread> lanes, std::size_t warp, std::size_t number) {
  const Product& product = issued.product;
  Rows rows(issued);
  std::array<std::uint32_t*, kLanes> c;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const Mine& mine = lanes[lane].pending[number];
    c[lane] = held_of(lanes[lane], mine.c).content.data();
    if (!product.a_held) continue;
    const std::vector<std::uint32_t>& pairs = held_of(lanes[lane], mine.a).content;
    for (unsigned i = 0; i < 8; ++i) {
      rows.set_a(lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i / 4 * 8 + i % 2,
                 static_cast<std::uint16_t>(pairs[i / 2] >> i % 2 * 16));
    }
  }
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned k = 0; k < kSum && !product.a_held; ++k) {
      const std::size_t of_group = warp % kWarps * 16 + row;
      rows.set_a(row, k, issued.a[product.a_transposed ? k * kRows + of_group : of_group * kSum + k]);
    }
    rows.multiply(row, {c[row % 8 * 4], c[row % 8 * 4 + 1], c[row % 8 * 4 + 2], c[row % 8 * 4 + 3]});
  }
}

// All lanes of a warp wait.
void complete(std::size_t warp, unsigned pending) {
  const std::span<Thread> lanes = std::span(threads).subspan(warp * kLanes, kLanes);
  const auto done_by = [&](const Thread& lane) {
    return std::count_if(lane.pending.begin(), lane.pending.end(),
                         [&](const Mine& mine) { return mine.committed + pending < lane.committed; });
  };
  const auto count = static_cast<std::size_t>(done_by(lanes[0]));
  for (const Thread& lane : lanes) {
    must(static_cast<std::size_t>(done_by(lane)) == count && lane.issued == lanes[0].issued,
         "lanes of a warp wait for different products");
    for (const Held& held : lane.held) check_poison(held);
  }
  if (count == 0) return;
  Group& group = groups[warp / kWarps];
  const std::size_t first = lanes[0].issued - lanes[0].pending.size() - group.before;
  for (std::size_t i = 0; i < count; ++i) {
    Issued& issued = group.products[first + i];
    must(rows_of_a(issued.product, false) == issued.a && columns_of_b(issued.product, false) == issued.b,
         "an operand is overwritten before its products are complete");
    multiply_rows(issued, lanes, warp, i);
    ++issued.waited;
  }
  for (Thread& lane : lanes) {
    for (std::size_t i = 0; i < count; ++i) {
      let_go(lane, lane.pending[i].c);
      if (lane.pending[i].a != nullptr) let_go(lane, lane.pending[i].a);
    }
    lane.pending.erase(lane.pending.begin(), lane.pending.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (; !group.products.empty() && group.products.front().waited == kWarps; ++group.before) group.products.pop_front();
}

}  // namespace

void multiply_together(bool chosen) { together = chosen; }
bool multiplies_together() { return together; }

std::uint32_t tile_address(const void* tile) {
  const std::span<const std::byte> shared = shared_bytes();
  const auto* at = static_cast<const std::byte*>(tile);
  must(at >= shared.data() && at < shared.data() + shared.size(), "a tile is outside of shared memory");
  const auto address = static_cast<std::uint32_t>(at - shared.data()) + kReserved;
  must(address % kChunk == 0, "a tile does not begin at a multiple of 1,024 bytes");
  return address;
}

void show_to_products() {
  if (!together) return;
  Thread& thread = self();
  if (!thread.shown) ++shown_threads;
  thread.shown = true;
  const std::span<const std::byte> shared = shared_bytes();
  if (shown_threads == threads.size()) shown.assign(shared.begin(), shared.end());
}

void begin_products() { self().began = true; }

void multiply(const Product& product, float* c, std::uint32_t* a) {
  Thread& thread = self();
  must(thread_of_block() / kGroup < groups.size(), "a warpgroup has four whole warps");
  Group& group = groups[thread_of_block() / kGroup];
  const std::size_t number = thread.issued++ - group.before;
  if (number == group.products.size())
    group.products.push_back({product, rows_of_a(product, true), columns_of_b(product, true), 0});
  must(group.products[number].product == product, "threads of a warpgroup issue different products");
  const Mine mine{reinterpret_cast<std::byte*>(c), reinterpret_cast<std::byte*>(a), thread.committed};
  hold(thread, mine.c, product.columns / 2);
  if (a != nullptr) hold(thread, mine.a, 4);
  thread.pending.push_back(mine);
}

void commit_products() {
  Thread& thread = self();
  ++thread.committed;
  thread.began = false;
}

void wait_for_products(unsigned pending) {
  self().began = false;
  meet_in_warp([warp = thread_of_block() / kLanes, pending] { complete(warp, pending); });
}

void begin_products_of_block() {
  if (!used) return;
  used = false;
  threads.clear();
  groups.clear();
  visible.clear();
  shown_threads = 0;
}

void pass_barrier() {
  if (!used) return;
  if (shown_threads > 0 && shown_threads == threads.size()) std::swap(visible, shown);
  shown_threads = 0;
  for (Thread& thread : threads) thread.shown = false;
}

void end_products_of_block() {
  if (!used) return;
  for (const Thread& thread : threads) must(thread.pending.empty(), "a kernel ends before its products");
  for (const Group& group : groups) must(group.products.empty(), "warps of a warpgroup issue different products");
}

}  // namespace plimsoll::cuda::emulation
