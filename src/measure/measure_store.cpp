#include "measure/measure_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/child.h"
#include "base/clock.h"
#include "base/memory_limit.h"
#include "device/arena.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/machine_facts.h"
#include "formats/kept_json.h"
#include "measure/machine_file.h"
#include "measure/measure.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.disk/12";
constexpr Bytes kLarge{1 << 20}, kSmall{32 << 10};
constexpr int kPages = 84;       // of each size, if there is room
constexpr int kInFlight = 4;     // per direction
constexpr int kBesideLarge = 8;  // short products during a single large page; one during a small page
constexpr int kRounds = 7;       // of all measurements in turn, because a disk's speed varies

// The number of large pages in memory: more than the caches hold, as for kernels, or fewer under a small budget.
int slots_here() {
  constexpr int kMost = 64, kLeast = 4 * kInFlight;
  constexpr Bytes kBeside{64 * kMiB.n};
  const std::optional<Bytes> room = MemoryLimit::room();
  return room ? static_cast<int>(std::clamp<std::int64_t>((*room - kBeside).n / kLarge.n, kLeast, kMost)) : kMost;
}

// Pages read and written at the same time: large ones, then small ones.
class MovingPages {
 public:
  MovingPages(const MeasuredStore& store, int pages)
      : pages_(pages),
        slots_(slots_here()),
        memory_(kLarge * slots_),
        store_(store.open((kLarge + kSmall) * pages, pieces(), 2 * kInFlight)) {
    const std::span<std::byte> memory = memory_.all();
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    for (const TierStore::Piece& piece : pieces()) {
      store_->write(piece.offset, piece.bytes,
                    [&](std::span<std::byte> part) { std::copy_n(memory.begin(), part.size(), part.begin()); });
    }
  }

  // Seconds per page, each read alone, until it has arrived and the concurrent `work` is done.
  double seconds_of_single(Bytes page, int pages, const std::function<void()>& work) {
    const Bytes first = page == kLarge ? Bytes{0} : kLarge * pages_;
    const double start = seconds_now();
    for (int i = 0; i < pages; ++i) {
      store_->start_read(0, first + page * i, slot(i, page));
      work();
      store_->wait(0);
    }
    return (seconds_now() - start) / pages;
  }

  // Starts `count` pages per direction, at most kInFlight. The pages differ from turn to turn.
  void start(Bytes page, int count, int turn) {
    const Bytes first = page == kLarge ? Bytes{0} : kLarge * pages_;
    for (int i = 0; i < count; ++i) {
      const int at = (turn * count + i) % (pages_ / 2);
      const auto in = static_cast<std::uint32_t>(i), out = in + kInFlight;
      store_->start_read(in, first + page * at, slot(2 * (turn * count + i), page));
      store_->start_write(out, first + page * (pages_ / 2 + at), slot(2 * (turn * count + i) + 1, page));
    }
  }
  void wait(int count) {
    for (int i = 0; i < count; ++i) {
      store_->wait(static_cast<std::uint32_t>(i));
      store_->wait(static_cast<std::uint32_t>(i) + kInFlight);
    }
  }

  // Seconds per page read, several at a time, while the same number is written, or none if `alone`.
  double seconds_of_page(Bytes page, bool alone, int pages) {
    const Bytes first = page == kLarge ? Bytes{0} : kLarge * pages_;
    const double start = seconds_now();
    for (int i = 0; i < pages; ++i) {
      const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
      if (i >= kInFlight) store_->wait(in);
      if (i >= kInFlight && !alone) store_->wait(out);
      store_->start_read(in, first + page * i, slot(2 * i, page));
      if (!alone) store_->start_write(out, first + page * (pages_ / 2 + i), slot(2 * i + 1, page));
    }
    for (std::uint32_t event = 0; event < (alone ? 1 : 2) * kInFlight; ++event) store_->wait(event);
    return (seconds_now() - start) / pages;
  }

 private:
  std::vector<TierStore::Piece> pieces() const {
    std::vector<TierStore::Piece> pieces;
    for (int i = 0; i < pages_; ++i) pieces.push_back({kLarge * i, kLarge});
    for (int i = 0; i < pages_; ++i) pieces.push_back({kLarge * pages_ + kSmall * i, kSmall});
    return pieces;
  }
  std::span<std::byte> slot(int number, Bytes page) {
    return memory_.all().subspan(static_cast<std::size_t>(kLarge.n * (number % slots_)), static_cast<std::size_t>(page.n));
  }

  int pages_, slots_;
  Arena memory_;  // as for kernels; outlives the store's transfers
  std::unique_ptr<TierStore> store_;
};

// Products of a few milliseconds and of a few tens of microseconds.
constexpr GemmShape kLong{.batch = 1, .m = 512, .n = 768, .k = 768}, kShort{.batch = 1, .m = 128, .n = 128, .k = 128};

// Matrix products on the whole team.
class Products {
 public:
  Products(const GemmShape& shape, int threads)
      : shape_(shape),
        operands_(shape.m * shape.k + shape.k * shape.n + shape.m * shape.n),
        gemm_(shape, threads),
        arena_(Bytes{operands_ * 4} + gemm_.plan().scratch) {
    auto* numbers = reinterpret_cast<float*>(arena_.base());
    for (std::int64_t i = 0; i < operands_; ++i) numbers[i] = 1e-3F * static_cast<float>(i % 7);
    run(8);
  }
  void run(int times) {
    auto* a = reinterpret_cast<float*>(arena_.base());
    float *b = a + shape_.m * shape_.k, *c = b + shape_.k * shape_.n;
    for (int i = 0; i < times; ++i) gemm_.run(a, b, nullptr, c, reinterpret_cast<std::byte*>(a + operands_));
  }
  double seconds() {
    constexpr int kTimes = 8;
    const double begin = seconds_now();
    run(kTimes);
    return (seconds_now() - begin) / kTimes;
  }

 private:
  GemmShape shape_;
  std::int64_t operands_;
  cpu::Gemm gemm_;
  Arena arena_;
};

// The seconds that products lose per page read and page written, at most the time of a page. The products take several times as
// long as the concurrent transfers. Each run with `together` pages per direction is compared with the run just before it, so that
// slow moments of the machine are in both.
double lost_seconds(MovingPages& moving, Products& products, Bytes size, int together, double page) {
  constexpr int kLonger = 4, kFewest = 16;
  constexpr double kAll = 2;  // seconds
  const double product = products.seconds();
  const int times = std::max(1, static_cast<int>(kLonger * page * together / product));
  const int pairs = std::max(kFewest, static_cast<int>(kAll / (2 * times * product)));
  std::vector<double> lost;
  for (int i = 0; i < pairs; ++i) {
    const double start = seconds_now();
    products.run(times);
    const double middle = seconds_now();
    moving.start(size, together, i);
    products.run(times);
    const double end = seconds_now();
    moving.wait(together);
    lost.push_back(((end - middle) - (middle - start)) / together);
  }
  return std::clamp(median(std::move(lost)), 0.0, page);
}

// The result of `measured` in another thread while products run on the team.
double beside(Products& products, const std::function<double()>& measured) {
  std::future<double> seconds = std::async(std::launch::async, measured);
  while (seconds.wait_for(std::chrono::seconds(0)) != std::future_status::ready) products.run(1);
  return seconds.get();
}

Link measure(const MeasuredStore& store, int threads) {
  const auto most = static_cast<int>(std::min<std::int64_t>(store.capacity.n / (kLarge + kSmall).n, kPages));
  const int pages = std::max(2 * kInFlight, most / 2 * 2);
  cpu::set_thread_count(threads);
  MovingPages moving(store, pages);
  Products products(kLong, threads), less(kShort, threads);
  std::vector<double> large_rounds, small_rounds, alone_rounds, idle_large, idle_small, single_large, single_small;
  for (int round = 0; round < kRounds; ++round) {
    large_rounds.push_back(beside(products, [&] { return moving.seconds_of_page(kLarge, false, pages / 2); }));
    small_rounds.push_back(moving.seconds_of_page(kSmall, false, pages / 2));  // without products, which would delay the thread
    alone_rounds.push_back(beside(products, [&] { return moving.seconds_of_page(kLarge, true, pages / 2); }));
    idle_large.push_back(moving.seconds_of_page(kLarge, true, pages / 2));
    idle_small.push_back(moving.seconds_of_page(kSmall, true, pages / 2));
    single_large.push_back(moving.seconds_of_single(kLarge, pages / 2, [&] { less.run(kBesideLarge); }));
    single_small.push_back(moving.seconds_of_single(kSmall, pages / 2, [&] { less.run(1); }));
  }
  const auto more = static_cast<double>((kLarge - kSmall).n);
  const double large = median(std::move(large_rounds)), small = std::min(median(std::move(small_rounds)), large);
  const double rate = more / std::max(large - small, large / 4);
  const double latency = std::max(0.0, small - static_cast<double>(kSmall.n) / rate);
  const double large_alone = median(std::move(alone_rounds)), small_alone = std::min(median(idle_small), large_alone);
  const double alone = std::clamp(more / std::max(large_alone - small_alone, 1e-9), rate, 4 * rate);  // a higher value is no rate
  const double alone_latency = std::clamp(small_alone - static_cast<double>(kSmall.n) / alone, 0.0, latency);
  const double product = less.seconds();
  const auto tail_of = [&](std::vector<double> singles, std::vector<double> shares, int products_beside) {
    return std::max(0.0, median(std::move(singles)) - std::max(median(std::move(shares)), products_beside * product));
  };
  const double tail_small = tail_of(std::move(single_small), std::move(idle_small), 1);
  const double tail_large = tail_of(std::move(single_large), std::move(idle_large), kBesideLarge);
  const double tail_byte = std::max(0.0, tail_large - tail_small) / more;
  const double lost_large = lost_seconds(moving, products, kLarge, 1, large);
  const double lost_small = std::min(lost_seconds(moving, products, kSmall, kInFlight, small), lost_large);
  const double lost_byte = (lost_large - lost_small) / (2 * more);
  return {.bytes_per_second = rate,
          .latency_seconds = latency,
          .alone_bytes_per_second = alone,
          .alone_latency_seconds = alone_latency,
          .kernel_seconds_per_byte = lost_byte,
          .kernel_seconds_per_piece = std::max(0.0, lost_small / 2 - static_cast<double>(kSmall.n) * lost_byte),
          .tail_seconds = std::max(0.0, tail_small - static_cast<double>(kSmall.n) * tail_byte),
          .tail_seconds_per_byte = tail_byte};
}

std::optional<Link> known(const std::filesystem::path& path) {
  constexpr std::int64_t kLargestFile = 4096;
  const std::optional<json> object = kept_json(path, kLargestFile);
  if (!object) return {};
  try {
    Link link = link_from(*object);
    if (object->at("schema") == kSchema && link.bytes_per_second > 0) return link;
  } catch (const std::exception&) {
    // A file of another version counts as absent.
  }
  return {};
}

void keep(const Link& link, const std::filesystem::path& path) {
  json object = to_json(link);
  object["schema"] = kSchema;
  keep_json(path, std::move(object));
}

std::filesystem::path store_file(const MeasuredStore& store, int threads, const std::filesystem::path& cache) {
  return cache / fmt::format("{}-{}.json", store.file, threads);
}

// Limits the threads of a described machine to those of this one.
int threads_here(int threads) { return std::min(threads, usable_cores()); }

}  // namespace

std::optional<Link> known_store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache) {
  return known(store_file(store, threads_here(threads), cache));
}

Link store_link(const MeasuredStore& store, int threads, const std::filesystem::path& cache,
                const std::function<void(const std::string&)>& say) {
  threads = threads_here(threads);
  const std::filesystem::path file = store_file(store, threads, cache);
  if (const std::optional<Link> link = known(file)) return *link;
  if (say) say(fmt::format("measuring {}, once, for {}", store.name, file.string()));
  const Link link = link_from(json::parse(run_in_child([&] { return to_json(measure(store, threads)).dump(); })));
  try {
    keep(link, file);
  } catch (const std::exception& error) {
    if (say) say(fmt::format("the measurement is not kept: {}", error.what()));
  }
  return link;
}

Link between(std::size_t from, std::size_t to, Link link) {
  link.from = from;
  link.to = to;
  return link;
}

}  // namespace plimsoll
